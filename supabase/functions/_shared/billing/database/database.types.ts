export type Json = string | number | boolean | null | {
  [key: string]: Json | undefined;
} | Json[];

export type Database = {
  "public": {
    Tables: {
      [_ in never]: never;
    };
    Views: {
      "billing_customers": {
        Row: {
          "account_id": string;
          "created_at": string;
          "customer_id": string;
          "provider": string;
        };
        ComputedFields: never;
        Insert: {
          "account_id"?: string | null;
          "created_at"?: string | null;
          "customer_id"?: string | null;
          "provider"?: string | null;
        };
        Update: {
          "account_id"?: string | null;
          "created_at"?: string | null;
          "customer_id"?: string | null;
          "provider"?: string | null;
        };
        Relationships: [];
      };
      "billing_events_per_hour": {
        Row: {
          "events": number | null;
          "hour": string | null;
          "outcome": string | null;
        };
        ComputedFields: never;
        Relationships: [];
      };
      "billing_failed_events": {
        Row: {
          "account_id": string | null;
          "attempts": number;
          "customer_id": string | null;
          "error": string;
          "error_code": string;
          "event_id": string;
          "first_failed_at": string;
          "kind": string | null;
          "last_failed_at": string;
          "next_retry_at": string | null;
          "occurred_at": string | null;
          "original_payload": Json | null;
          "payload": Json | null;
          "payload_encoding": string;
          "provider": string;
          "resolution": string | null;
          "resolution_note": string | null;
          "resolved_at": string | null;
          "resolved_by": string | null;
          "retry_lease_id": string | null;
          "retry_requested_at": string | null;
          "subscription_id": string | null;
          "type": string | null;
          "version": string | null;
        };
        ComputedFields: never;
        Insert: {
          "account_id"?: string | null;
          "attempts"?: number | null;
          "customer_id"?: string | null;
          "error"?: string | null;
          "error_code"?: string | null;
          "event_id"?: string | null;
          "first_failed_at"?: string | null;
          "kind"?: string | null;
          "last_failed_at"?: string | null;
          "next_retry_at"?: string | null;
          "occurred_at"?: string | null;
          "original_payload"?: Json | null;
          "payload"?: Json | null;
          "payload_encoding"?: string | null;
          "provider"?: string | null;
          "resolution"?: string | null;
          "resolution_note"?: string | null;
          "resolved_at"?: string | null;
          "resolved_by"?: string | null;
          "retry_lease_id"?: string | null;
          "retry_requested_at"?: string | null;
          "subscription_id"?: string | null;
          "type"?: string | null;
          "version"?: never;
        };
        Update: {
          "account_id"?: string | null;
          "attempts"?: number | null;
          "customer_id"?: string | null;
          "error"?: string | null;
          "error_code"?: string | null;
          "event_id"?: string | null;
          "first_failed_at"?: string | null;
          "kind"?: string | null;
          "last_failed_at"?: string | null;
          "next_retry_at"?: string | null;
          "occurred_at"?: string | null;
          "original_payload"?: Json | null;
          "payload"?: Json | null;
          "payload_encoding"?: string | null;
          "provider"?: string | null;
          "resolution"?: string | null;
          "resolution_note"?: string | null;
          "resolved_at"?: string | null;
          "resolved_by"?: string | null;
          "retry_lease_id"?: string | null;
          "retry_requested_at"?: string | null;
          "subscription_id"?: string | null;
          "type"?: string | null;
          "version"?: never;
        };
        Relationships: [];
      };
      "billing_grants": {
        Row: {
          "ended_at": string | null;
          "ended_by": string | null;
          "ended_reason": string | null;
          "granted_at": string;
          "granted_by": string;
          "reason": string;
          "subscription_id": string;
        };
        ComputedFields: never;
        Insert: {
          "ended_at"?: string | null;
          "ended_by"?: string | null;
          "ended_reason"?: string | null;
          "granted_at"?: string | null;
          "granted_by"?: string | null;
          "reason"?: string | null;
          "subscription_id"?: string | null;
        };
        Update: {
          "ended_at"?: string | null;
          "ended_by"?: string | null;
          "ended_reason"?: string | null;
          "granted_at"?: string | null;
          "granted_by"?: string | null;
          "reason"?: string | null;
          "subscription_id"?: string | null;
        };
        Relationships: [
          {
            foreignKeyName: "grants_subscription_id_fkey";
            columns: ["subscription_id"];
            isOneToOne: true;
            referencedRelation: "billing_records";
            referencedColumns: ["id"];
          },
          {
            foreignKeyName: "grants_subscription_id_fkey";
            columns: ["subscription_id"];
            isOneToOne: true;
            referencedRelation: "billing_subscription_items";
            referencedColumns: ["subscription_id"];
          },
          {
            foreignKeyName: "grants_subscription_id_fkey";
            columns: ["subscription_id"];
            isOneToOne: true;
            referencedRelation: "billing_subscriptions";
            referencedColumns: ["id"];
          },
        ];
      };
      "billing_health": {
        Row: {
          "double_subscribed": number | null;
          "erased_purchases": number | null;
          "handlers": (string)[] | null;
          "last_event_at": string | null;
          "last_scheduled_run_at": string | null;
          "last_swept_at": string | null;
          "missed_events": number | null;
          "notifications_given_up": number | null;
          "notifications_pending": number | null;
          "oldest_open_failure": string | null;
          "oldest_pending_notification": string | null;
          "open_failures": number | null;
          "retries_requested": number | null;
          "schema_version": number | null;
        };
        ComputedFields: never;
        Relationships: [];
      };
      "billing_notifications": {
        Row: {
          "account_id": string;
          "attempts": number;
          "created_at": string;
          "event_id": string;
          "id": string;
          "invoice_id": string | null;
          "kind": string;
          "last_error": string | null;
          "next_attempt_at": string;
          "occurred_at": string;
          "provider": string;
          "sent_at": string | null;
          "status": string;
          "subscription_id": string;
        };
        ComputedFields: never;
        Insert: {
          "account_id"?: string | null;
          "attempts"?: number | null;
          "created_at"?: string | null;
          "event_id"?: string | null;
          "id"?: string | null;
          "invoice_id"?: string | null;
          "kind"?: string | null;
          "last_error"?: string | null;
          "next_attempt_at"?: string | null;
          "occurred_at"?: string | null;
          "provider"?: string | null;
          "sent_at"?: string | null;
          "status"?: string | null;
          "subscription_id"?: string | null;
        };
        Update: {
          "account_id"?: string | null;
          "attempts"?: number | null;
          "created_at"?: string | null;
          "event_id"?: string | null;
          "id"?: string | null;
          "invoice_id"?: string | null;
          "kind"?: string | null;
          "last_error"?: string | null;
          "next_attempt_at"?: string | null;
          "occurred_at"?: string | null;
          "provider"?: string | null;
          "sent_at"?: string | null;
          "status"?: string | null;
          "subscription_id"?: string | null;
        };
        Relationships: [];
      };
      "billing_plan_features": {
        Row: {
          "amount": number | null;
          "feature": string;
          "per_unit": boolean;
          "plan_id": string;
        };
        ComputedFields: never;
        Insert: {
          "amount"?: number | null;
          "feature"?: string | null;
          "per_unit"?: boolean | null;
          "plan_id"?: string | null;
        };
        Update: {
          "amount"?: number | null;
          "feature"?: string | null;
          "per_unit"?: boolean | null;
          "plan_id"?: string | null;
        };
        Relationships: [];
      };
      "billing_processed_events": {
        Row: {
          "event_id": string;
          "outcome": string;
          "processed_at": string;
          "provider": string;
          "type": string;
        };
        ComputedFields: never;
        Insert: {
          "event_id"?: string | null;
          "outcome"?: string | null;
          "processed_at"?: string | null;
          "provider"?: string | null;
          "type"?: string | null;
        };
        Update: {
          "event_id"?: string | null;
          "outcome"?: string | null;
          "processed_at"?: string | null;
          "provider"?: string | null;
          "type"?: string | null;
        };
        Relationships: [];
      };
      "billing_records": {
        Row: {
          "account_as_of": string | null;
          "account_id": string;
          "cancel_at": string | null;
          "canceled_as_of": string | null;
          "canceled_at": string | null;
          "changed_as_of": string | null;
          "changed_by_update": boolean | null;
          "current_period_end": string | null;
          "customer_id": string | null;
          "id": string;
          "items": Json | null;
          "items_complete": boolean | null;
          "livemode": boolean | null;
          "past_due_since": string | null;
          "paused": string | null;
          "paused_until": string | null;
          "plan_id": string;
          "provider": string;
          "provider_status": string | null;
          "quantity": number | null;
          "status": string;
          "trial_end": string | null;
        };
        ComputedFields: never;
        Insert: {
          "account_as_of"?: never;
          "account_id"?: string | null;
          "cancel_at"?: string | null;
          "canceled_as_of"?: never;
          "canceled_at"?: string | null;
          "changed_as_of"?: never;
          "changed_by_update"?: never;
          "current_period_end"?: string | null;
          "customer_id"?: string | null;
          "id"?: string | null;
          "items"?: Json | null;
          "items_complete"?: boolean | null;
          "livemode"?: boolean | null;
          "past_due_since"?: string | null;
          "paused"?: string | null;
          "paused_until"?: string | null;
          "plan_id"?: string | null;
          "provider"?: string | null;
          "provider_status"?: string | null;
          "quantity"?: number | null;
          "status"?: string | null;
          "trial_end"?: string | null;
        };
        Update: {
          "account_as_of"?: never;
          "account_id"?: string | null;
          "cancel_at"?: string | null;
          "canceled_as_of"?: never;
          "canceled_at"?: string | null;
          "changed_as_of"?: never;
          "changed_by_update"?: never;
          "current_period_end"?: string | null;
          "customer_id"?: string | null;
          "id"?: string | null;
          "items"?: Json | null;
          "items_complete"?: boolean | null;
          "livemode"?: boolean | null;
          "past_due_since"?: string | null;
          "paused"?: string | null;
          "paused_until"?: string | null;
          "plan_id"?: string | null;
          "provider"?: string | null;
          "provider_status"?: string | null;
          "quantity"?: number | null;
          "status"?: string | null;
          "trial_end"?: string | null;
        };
        Relationships: [];
      };
      "billing_subscription_items": {
        Row: {
          "account_id": string;
          "current_period_end": string | null;
          "item_id": string | null;
          "price_id": string | null;
          "product_id": string | null;
          "provider": string;
          "quantity": number | null;
          "subscription_id": string;
          "usage_type": string | null;
        };
        ComputedFields: never;
        Relationships: [];
      };
      "billing_subscriptions": {
        Row: {
          "account_id": string;
          "cancel_at": string | null;
          "canceled_at": string | null;
          "created_at": string;
          "current_period_end": string | null;
          "customer_id": string | null;
          "had_trial": boolean | null;
          "id": string;
          "items": Json | null;
          "items_complete": boolean | null;
          "livemode": boolean | null;
          "paid_until": string | null;
          "past_due_since": string | null;
          "paused": string | null;
          "paused_until": string | null;
          "plan_id": string;
          "provider": string;
          "provider_status": string | null;
          "quantity": number | null;
          "status": string;
          "trial_end": string | null;
        };
        ComputedFields: never;
        Insert: {
          "account_id"?: string | null;
          "cancel_at"?: string | null;
          "canceled_at"?: string | null;
          "created_at"?: string | null;
          "current_period_end"?: string | null;
          "customer_id"?: string | null;
          "had_trial"?: never;
          "id"?: string | null;
          "items"?: never;
          "items_complete"?: boolean | null;
          "livemode"?: boolean | null;
          "paid_until"?: never;
          "past_due_since"?: string | null;
          "paused"?: string | null;
          "paused_until"?: string | null;
          "plan_id"?: string | null;
          "provider"?: string | null;
          "provider_status"?: string | null;
          "quantity"?: number | null;
          "status"?: string | null;
          "trial_end"?: string | null;
        };
        Update: {
          "account_id"?: string | null;
          "cancel_at"?: string | null;
          "canceled_at"?: string | null;
          "created_at"?: string | null;
          "current_period_end"?: string | null;
          "customer_id"?: string | null;
          "had_trial"?: never;
          "id"?: string | null;
          "items"?: never;
          "items_complete"?: boolean | null;
          "livemode"?: boolean | null;
          "paid_until"?: never;
          "past_due_since"?: string | null;
          "paused"?: string | null;
          "paused_until"?: string | null;
          "plan_id"?: string | null;
          "provider"?: string | null;
          "provider_status"?: string | null;
          "quantity"?: number | null;
          "status"?: string | null;
          "trial_end"?: string | null;
        };
        Relationships: [];
      };
      "billing_sweeps": {
        Row: {
          "found": number;
          "last_error": string | null;
          "last_run_at": string | null;
          "last_success_at": string | null;
          "provider": string;
          "swept_until": string | null;
          "types": NonNullable<Json>;
          "wanted_at": string;
          "wanted_since": string;
        };
        ComputedFields: never;
        Insert: {
          "found"?: number | null;
          "last_error"?: string | null;
          "last_run_at"?: string | null;
          "last_success_at"?: string | null;
          "provider"?: string | null;
          "swept_until"?: string | null;
          "types"?: Json | null;
          "wanted_at"?: string | null;
          "wanted_since"?: string | null;
        };
        Update: {
          "found"?: number | null;
          "last_error"?: string | null;
          "last_run_at"?: string | null;
          "last_success_at"?: string | null;
          "provider"?: string | null;
          "swept_until"?: string | null;
          "types"?: Json | null;
          "wanted_at"?: string | null;
          "wanted_since"?: string | null;
        };
        Relationships: [];
      };
    };
    Functions: {
      "billing_account": {
        Args: { "account_id": string; "grace"?: string };
        Returns: Json;
      };
      "billing_account_email": {
        Args: { "account_id": string };
        Returns: string;
      };
      "billing_account_of_customer": {
        Args: { "customer_id": string; "provider": string };
        Returns: string;
      };
      "billing_apply_events": {
        Args: { "events": Json };
        Returns: {
          "error": string;
          "error_code": string;
          "outcome": string;
          "place": number;
          "retries": boolean;
        }[];
      };
      "billing_apply_handled_event": {
        Args: { "event": Json };
        Returns: {
          "error": string;
          "error_code": string;
          "outcome": string;
          "place": number;
          "retries": boolean;
        }[];
      };
      "billing_claim_alerts": {
        Args: {
          "destination": string;
          "handlers"?: (string)[];
          "lease_id": string;
        };
        Returns: {
          "alert": Json;
          "created_at": string;
          "id": string;
          "kind": string;
        }[];
      };
      "billing_claim_failed_events": {
        Args: { "batch_size": number; "lease_id": string };
        Returns: {
          "body": string;
          "body_encoding": string;
          "event_id": string;
          "provider": string;
          "type": string;
        }[];
      };
      "billing_claim_notifications": {
        Args: {
          "batch_size": number;
          "destination": string;
          "lease_id": string;
        };
        Returns: Json[];
      };
      "billing_claim_sweep": {
        Args: { "destination": string; "lease_id": string; "provider": string };
        Returns: {
          "goes_on": boolean;
          "not_before": string;
          "position": string;
          "swept_until": string;
          "types": Json;
        }[];
      };
      "billing_default_grace": {
        Args: Record<PropertyKey, never>;
        Returns: string;
      };
      "billing_end_grant": {
        Args: { "grant_id": string; "reason": string; "who"?: string };
        Returns: string;
      };
      "billing_feature_amount": {
        Args: { "account_id": string; "feature": string; "grace"?: string };
        Returns: number;
      };
      "billing_grant_plan": {
        Args: {
          "account_id": string;
          "plan_id": string;
          "quantity"?: number;
          "reason"?: string;
          "until"?: string;
          "who"?: string;
        };
        Returns: string;
      };
      "billing_has_access": {
        Args: { "account_id": string; "grace"?: string };
        Returns: boolean;
      };
      "billing_has_feature": {
        Args: {
          "account_id": string;
          "feature": string;
          "grace"?: string;
          "used"?: number;
        };
        Returns: boolean;
      };
      "billing_is_erased": { Args: { "events": Json }; Returns: string[] };
      "billing_missing_events": {
        Args: { "event_ids": (string)[] };
        Returns: (string)[];
      };
      "billing_record_failed_event": {
        Args: { "failure": Json };
        Returns: string;
      };
      "billing_release_lease": {
        Args: {
          "is_last"?: boolean;
          "is_scheduled"?: boolean;
          "lease_id": string;
          "queue": string;
        };
        Returns: boolean;
      };
      "billing_reopen_failed_event": {
        Args: { "event_id": string; "of_provider"?: string };
        Returns: string;
      };
      "billing_request_sweep": {
        Args: { "providers": (string)[] };
        Returns: boolean;
      };
      "billing_resolve_failed_event": {
        Args: {
          "event_id": string;
          "of_provider"?: string;
          "reason": string;
          "who"?: string;
        };
        Returns: string;
      };
      "billing_retry_failed_event": {
        Args: { "event_id": string; "of_provider"?: string };
        Returns: string;
      };
      "billing_retry_failed_events": {
        Args: {
          "failed_since"?: string;
          "failed_until"?: string;
          "of_error_code"?: string;
          "of_type"?: string;
        };
        Returns: string;
      };
      "billing_settle_alerts": {
        Args: { "destination": string; "lease_id": string; "results": Json };
        Returns: number;
      };
      "billing_settle_failed_events": {
        Args: { "lease_id": string; "results": Json };
        Returns: number;
      };
      "billing_settle_notifications": {
        Args: { "destination": string; "lease_id": string; "results": Json };
        Returns: number;
      };
      "billing_settle_sweep": {
        Args: {
          "destination": string;
          "lease_id": string;
          "provider": string;
          "result": Json;
        };
        Returns: boolean;
      };
      "billing_try_event": {
        Args: { "event": Json };
        Returns: {
          "error": string;
          "error_code": string;
          "outcome": string;
        }[];
      };
    };
    Enums: {
      [_ in never]: never;
    };
    CompositeTypes: {
      [_ in never]: never;
    };
  };
};

type DatabaseWithoutInternals = Omit<Database, "__InternalSupabase">;

type DefaultSchema =
  DatabaseWithoutInternals[Extract<keyof Database, "public">];

export type Tables<
  DefaultSchemaTableNameOrOptions extends
    | keyof (DefaultSchema["Tables"] & DefaultSchema["Views"])
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals;
  } ? keyof (
      & DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]][
        "Tables"
      ]
      & DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]][
        "Views"
      ]
    )
    : never = never,
> = DefaultSchemaTableNameOrOptions extends
  { schema: keyof DatabaseWithoutInternals } ? (
    & DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]][
      "Tables"
    ]
    & DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]][
      "Views"
    ]
  )[TableName] extends {
    Row: infer R;
  } ? R
  : never
  : DefaultSchemaTableNameOrOptions extends
    keyof (DefaultSchema["Tables"] & DefaultSchema["Views"])
    ? (DefaultSchema["Tables"] & DefaultSchema["Views"])[
      DefaultSchemaTableNameOrOptions
    ] extends {
      Row: infer R;
    } ? R
    : never
  : never;

export type TablesInsert<
  DefaultSchemaTableNameOrOptions extends
    | keyof DefaultSchema["Tables"]
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals;
  } ? keyof DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]][
      "Tables"
    ]
    : never = never,
> = DefaultSchemaTableNameOrOptions extends
  { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]][
    "Tables"
  ][TableName] extends {
    Insert: infer I;
  } ? I
  : never
  : DefaultSchemaTableNameOrOptions extends keyof DefaultSchema["Tables"]
    ? DefaultSchema["Tables"][DefaultSchemaTableNameOrOptions] extends {
      Insert: infer I;
    } ? I
    : never
  : never;

export type TablesUpdate<
  DefaultSchemaTableNameOrOptions extends
    | keyof DefaultSchema["Tables"]
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals;
  } ? keyof DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]][
      "Tables"
    ]
    : never = never,
> = DefaultSchemaTableNameOrOptions extends
  { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]][
    "Tables"
  ][TableName] extends {
    Update: infer U;
  } ? U
  : never
  : DefaultSchemaTableNameOrOptions extends keyof DefaultSchema["Tables"]
    ? DefaultSchema["Tables"][DefaultSchemaTableNameOrOptions] extends {
      Update: infer U;
    } ? U
    : never
  : never;

export type Enums<
  DefaultSchemaEnumNameOrOptions extends
    | keyof DefaultSchema["Enums"]
    | { schema: keyof DatabaseWithoutInternals },
  EnumName extends DefaultSchemaEnumNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals;
  } ? keyof DatabaseWithoutInternals[DefaultSchemaEnumNameOrOptions["schema"]][
      "Enums"
    ]
    : never = never,
> = DefaultSchemaEnumNameOrOptions extends
  { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[DefaultSchemaEnumNameOrOptions["schema"]]["Enums"][
    EnumName
  ]
  : DefaultSchemaEnumNameOrOptions extends keyof DefaultSchema["Enums"]
    ? DefaultSchema["Enums"][DefaultSchemaEnumNameOrOptions]
  : never;

export type CompositeTypes<
  PublicCompositeTypeNameOrOptions extends
    | keyof DefaultSchema["CompositeTypes"]
    | { schema: keyof DatabaseWithoutInternals },
  CompositeTypeName extends PublicCompositeTypeNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals;
  } ? keyof DatabaseWithoutInternals[
      PublicCompositeTypeNameOrOptions["schema"]
    ]["CompositeTypes"]
    : never = never,
> = PublicCompositeTypeNameOrOptions extends
  { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[PublicCompositeTypeNameOrOptions["schema"]][
    "CompositeTypes"
  ][CompositeTypeName]
  : PublicCompositeTypeNameOrOptions extends
    keyof DefaultSchema["CompositeTypes"]
    ? DefaultSchema["CompositeTypes"][PublicCompositeTypeNameOrOptions]
  : never;

export const Constants = {
  "public": {
    Enums: {},
  },
} as const;
