export type Json = string | number | boolean | null | {
  [key: string]: Json | undefined;
} | Json[];

export type Database = {
  "public": {
    Tables: {
      "failed_events": {
        Row: {
          "account_id": string | null;
          "attempts": number;
          "error": string;
          "error_code": string;
          "event_created": number | null;
          "event_id": string;
          "first_failed_at": string;
          "last_failed_at": string;
          "original_payload": Json | null;
          "payload": Json | null;
          "payload_encoding": string;
          "provider": string;
          "resolution": string | null;
          "resolution_note": string | null;
          "resolved_at": string | null;
          "resolved_by": string | null;
          "retry_lease_id": string | null;
          "retry_leased_until": string | null;
          "retry_requested_at": string | null;
          "subscription_id": string | null;
          "type": string | null;
        };
        ComputedFields: never;
        Insert: {
          "account_id"?: never;
          "attempts"?: number;
          "error": string;
          "error_code": string;
          "event_created"?: never;
          "event_id": string;
          "first_failed_at"?: string;
          "last_failed_at"?: string;
          "original_payload"?: Json | null;
          "payload"?: Json | null;
          "payload_encoding": string;
          "provider": string;
          "resolution"?: string | null;
          "resolution_note"?: string | null;
          "resolved_at"?: string | null;
          "resolved_by"?: string | null;
          "retry_lease_id"?: string | null;
          "retry_leased_until"?: string | null;
          "retry_requested_at"?: string | null;
          "subscription_id"?: never;
          "type"?: string | null;
        };
        Update: {
          "account_id"?: never;
          "attempts"?: number;
          "error"?: string;
          "error_code"?: string;
          "event_created"?: never;
          "event_id"?: string;
          "first_failed_at"?: string;
          "last_failed_at"?: string;
          "original_payload"?: Json | null;
          "payload"?: Json | null;
          "payload_encoding"?: string;
          "provider"?: string;
          "resolution"?: string | null;
          "resolution_note"?: string | null;
          "resolved_at"?: string | null;
          "resolved_by"?: string | null;
          "retry_lease_id"?: string | null;
          "retry_leased_until"?: string | null;
          "retry_requested_at"?: string | null;
          "subscription_id"?: never;
          "type"?: string | null;
        };
        Relationships: [];
      };
      "failure_alerts": {
        Row: {
          "alerted_at": string | null;
          "error_code": string;
          "notification_id": string;
          "opened_at": string | null;
          "reported": number;
          "reported_until": string;
        };
        ComputedFields: never;
        Insert: {
          "alerted_at"?: string | null;
          "error_code": string;
          "notification_id": string;
          "opened_at"?: string | null;
          "reported": number;
          "reported_until": string;
        };
        Update: {
          "alerted_at"?: string | null;
          "error_code"?: string;
          "notification_id"?: string;
          "opened_at"?: string | null;
          "reported"?: number;
          "reported_until"?: string;
        };
        Relationships: [];
      };
      "notification_pace": {
        Row: {
          "destination": string;
          "next_send_at": string;
        };
        ComputedFields: never;
        Insert: {
          "destination": string;
          "next_send_at": string;
        };
        Update: {
          "destination"?: string;
          "next_send_at"?: string;
        };
        Relationships: [];
      };
      "notifications": {
        Row: {
          "account_id": string | null;
          "alert": Json | null;
          "amount_due": number | null;
          "attempt_count": number | null;
          "attempts": number;
          "created_at": string;
          "currency": string | null;
          "event_id": string | null;
          "hosted_invoice_url": string | null;
          "id": string;
          "invoice_id": string | null;
          "kind": string;
          "last_error": string | null;
          "lease_id": string | null;
          "limited_since": string | null;
          "next_attempt_at": string;
          "next_payment_attempt": string | null;
          "provider": string | null;
          "sent_at": string | null;
          "status": string;
          "subscription_id": string | null;
        };
        ComputedFields: never;
        Insert: {
          "account_id"?: string | null;
          "alert"?: Json | null;
          "amount_due"?: number | null;
          "attempt_count"?: number | null;
          "attempts"?: number;
          "created_at"?: string;
          "currency"?: string | null;
          "event_id"?: string | null;
          "hosted_invoice_url"?: string | null;
          "id"?: string;
          "invoice_id"?: string | null;
          "kind"?: string;
          "last_error"?: string | null;
          "lease_id"?: string | null;
          "limited_since"?: string | null;
          "next_attempt_at"?: string;
          "next_payment_attempt"?: string | null;
          "provider"?: string | null;
          "sent_at"?: string | null;
          "status"?: string;
          "subscription_id"?: string | null;
        };
        Update: {
          "account_id"?: string | null;
          "alert"?: Json | null;
          "amount_due"?: number | null;
          "attempt_count"?: number | null;
          "attempts"?: number;
          "created_at"?: string;
          "currency"?: string | null;
          "event_id"?: string | null;
          "hosted_invoice_url"?: string | null;
          "id"?: string;
          "invoice_id"?: string | null;
          "kind"?: string;
          "last_error"?: string | null;
          "lease_id"?: string | null;
          "limited_since"?: string | null;
          "next_attempt_at"?: string;
          "next_payment_attempt"?: string | null;
          "provider"?: string | null;
          "sent_at"?: string | null;
          "status"?: string;
          "subscription_id"?: string | null;
        };
        Relationships: [];
      };
      "processed_events": {
        Row: {
          "event_id": string;
          "outcome": string;
          "processed_at": string;
          "provider": string;
          "type": string;
        };
        ComputedFields: never;
        Insert: {
          "event_id": string;
          "outcome"?: string;
          "processed_at"?: string;
          "provider": string;
          "type": string;
        };
        Update: {
          "event_id"?: string;
          "outcome"?: string;
          "processed_at"?: string;
          "provider"?: string;
          "type"?: string;
        };
        Relationships: [];
      };
      "subscriptions": {
        Row: {
          "account_as_of": string | null;
          "account_id": string;
          "cancel_at": string | null;
          "canceled_as_of": string | null;
          "canceled_at": string | null;
          "changed_as_of": string | null;
          "changed_by_update": boolean;
          "changed_in_second": NonNullable<Json>;
          "current_period_end": string;
          "customer_id": string | null;
          "id": string;
          "livemode": boolean | null;
          "past_due_since": string | null;
          "paused": string | null;
          "plan_id": string;
          "provider": string;
          "provider_status": string | null;
          "quantity": number | null;
          "status": string;
          "trial_end": string | null;
        };
        ComputedFields: never;
        Insert: {
          "account_as_of"?: string | null;
          "account_id": string;
          "cancel_at"?: string | null;
          "canceled_as_of"?: string | null;
          "canceled_at"?: string | null;
          "changed_as_of"?: string | null;
          "changed_by_update"?: boolean;
          "changed_in_second"?: NonNullable<Json>;
          "current_period_end": string;
          "customer_id"?: string | null;
          "id": string;
          "livemode"?: boolean | null;
          "past_due_since"?: string | null;
          "paused"?: string | null;
          "plan_id": string;
          "provider": string;
          "provider_status"?: string | null;
          "quantity"?: number | null;
          "status": string;
          "trial_end"?: string | null;
        };
        Update: {
          "account_as_of"?: string | null;
          "account_id"?: string;
          "cancel_at"?: string | null;
          "canceled_as_of"?: string | null;
          "canceled_at"?: string | null;
          "changed_as_of"?: string | null;
          "changed_by_update"?: boolean;
          "changed_in_second"?: NonNullable<Json>;
          "current_period_end"?: string;
          "customer_id"?: string | null;
          "id"?: string;
          "livemode"?: boolean | null;
          "past_due_since"?: string | null;
          "paused"?: string | null;
          "plan_id"?: string;
          "provider"?: string;
          "provider_status"?: string | null;
          "quantity"?: number | null;
          "status"?: string;
          "trial_end"?: string | null;
        };
        Relationships: [];
      };
    };
    Views: {
      "billing_events_per_hour": {
        Row: {
          "events": number | null;
          "hour": string | null;
          "outcome": string | null;
          "type": string | null;
        };
        ComputedFields: never;
        Relationships: [];
      };
      "billing_health": {
        Row: {
          "last_event_at": string | null;
          "ledger_rows_estimate": number | null;
          "notifications_given_up": number | null;
          "notifications_pending": number | null;
          "oldest_open_failure": string | null;
          "oldest_pending_notification": string | null;
          "open_failures": number | null;
          "retries_requested": number | null;
        };
        ComputedFields: never;
        Relationships: [];
      };
      "open_failures": {
        Row: {
          "account_id": string | null;
          "alike": number | null;
          "attempts": number;
          "error": string;
          "error_code": string;
          "event_id": string;
          "first_failed_at": string;
          "last_failed_at": string;
          "provider": string;
          "repaired": boolean | null;
          "retry_requested": boolean | null;
          "subscription_id": string | null;
          "type": string | null;
        };
        ComputedFields: never;
        Relationships: [];
      };
    };
    Functions: {
      "account_email": { Args: { "account_id": string }; Returns: string };
      "account_of_customer": {
        Args: { "customer_id": string; "provider": string };
        Returns: string;
      };
      "apply_billing_events": {
        Args: { "events": Json };
        Returns: {
          "error": string;
          "error_code": string;
          "outcome": string;
          "place": number;
        }[];
      };
      "apply_invoice_payment_failed": {
        Args: {
          "p_amount_due"?: number;
          "p_attempt_count"?: number;
          "p_currency"?: string;
          "p_event_id": string;
          "p_hosted_invoice_url"?: string;
          "p_invoice_id": string;
          "p_next_payment_attempt"?: string;
          "p_once_per_invoice"?: boolean;
          "p_provider": string;
          "p_subscription_id": string;
        };
        Returns: string;
      };
      "apply_subscription_created": {
        Args: {
          "p_account_id": string;
          "p_cancel_at"?: string;
          "p_created": string;
          "p_current_period_end": string;
          "p_customer_id"?: string;
          "p_livemode"?: boolean;
          "p_paused"?: string;
          "p_plan_id": string;
          "p_provider": string;
          "p_provider_status"?: string;
          "p_quantity"?: number;
          "p_subscription_id": string;
          "p_trial_end"?: string;
        };
        Returns: string;
      };
      "apply_subscription_deleted": {
        Args: {
          "p_created": string;
          "p_provider": string;
          "p_subscription_id": string;
        };
        Returns: string;
      };
      "apply_subscription_updated": {
        Args: {
          "p_cancel_at"?: string;
          "p_created": string;
          "p_current_period_end": string;
          "p_customer_id"?: string;
          "p_livemode"?: boolean;
          "p_paused"?: string;
          "p_plan_id": string;
          "p_previous": Json;
          "p_provider": string;
          "p_provider_status"?: string;
          "p_quantity"?: number;
          "p_status": string;
          "p_subscription_id": string;
          "p_trial_end"?: string;
        };
        Returns: string;
      };
      "apply_updates_together": {
        Args: { "claimed": (string)[]; "events": Json; "locked": (string)[] };
        Returns: (string)[];
      };
      "billing_rights": {
        Args: Record<PropertyKey, never>;
        Returns: {
          "app_may": string;
          "kind": string;
          "name": string;
          "service_role_may": string;
        }[];
      };
      "billing_version": { Args: Record<PropertyKey, never>; Returns: string };
      "claim_billing_events": {
        Args: { "events": Json };
        Returns: Record<string, unknown>;
      };
      "claim_failed_events": {
        Args: { "p_lease_seconds": number; "p_limit": number };
        Returns: {
          "body": string;
          "body_encoding": string;
          "event_id": string;
          "lease_id": string;
          "provider": string;
        }[];
      };
      "claim_notifications": {
        Args: {
          "p_alerts"?: boolean;
          "p_destination": string;
          "p_lease_seconds": number;
          "p_limit": number;
          "p_per_second"?: number;
        };
        Returns: {
          "account_id": string;
          "alert": Json;
          "amount_due": number;
          "attempt": number;
          "attempt_count": number;
          "created_at": string;
          "currency": string;
          "event_id": string;
          "hosted_invoice_url": string;
          "id": string;
          "invoice_id": string;
          "kind": string;
          "lease_id": string;
          "next_payment_attempt": string;
          "provider": string;
          "subscription_id": string;
          "wait_ms": number;
        }[];
      };
      "excess_billing_rights": {
        Args: Record<PropertyKey, never>;
        Returns: {
          "excess": string;
          "object": string;
        }[];
      };
      "find_subscription": {
        Args: { "p_provider": string; "p_subscription_id": string };
        Returns: {
          "account_as_of": string | null;
          "account_id": string;
          "cancel_at": string | null;
          "canceled_as_of": string | null;
          "canceled_at": string | null;
          "changed_as_of": string | null;
          "changed_by_update": boolean;
          "changed_in_second": NonNullable<Json>;
          "current_period_end": string;
          "customer_id": string | null;
          "id": string;
          "livemode": boolean | null;
          "past_due_since": string | null;
          "paused": string | null;
          "plan_id": string;
          "provider": string;
          "provider_status": string | null;
          "quantity": number | null;
          "status": string;
          "trial_end": string | null;
        };
        SetofOptions: {
          from: "*";
          to: "subscriptions";
          isOneToOne: true;
          isSetofReturn: false;
        };
      };
      "forget_marks_ahead": {
        Args: { "p_provider": string; "p_subscription_id": string };
        Returns: boolean;
      };
      "has_access": {
        Args: { "account_id": string; "grace"?: string };
        Returns: boolean;
      };
      "has_long_number": { Args: { "payload": Json }; Returns: boolean };
      "lock_failed_event": {
        Args: { "p_event_id": string; "p_provider": string; "p_retry": Json };
        Returns: boolean;
      };
      "merge_update": {
        Args: {
          "p_held": Json;
          "p_previous": Json;
          "p_second": Json;
          "p_stated": Json;
        };
        Returns: Record<string, unknown>;
      };
      "notification_waits": {
        Args: Record<PropertyKey, never>;
        Returns: (string)[];
      };
      "open_alerts": { Args: Record<PropertyKey, never>; Returns: number };
      "provider_of_failed_event": {
        Args: { "event_id": string; "of_provider": string };
        Returns: string;
      };
      "prune_billing_tables": {
        Args: {
          "batch_size"?: number;
          "ledger_keeps"?: string;
          "payloads_keep"?: string;
          "settled_rows_keep"?: string;
        };
        Returns: {
          "failures": number;
          "ledger_rows": number;
          "notifications": number;
          "payloads": number;
        }[];
      };
      "record_failed_event": {
        Args: {
          "p_body": string;
          "p_body_encoding": string;
          "p_error": string;
          "p_error_code": string;
          "p_event_id": string;
          "p_provider": string;
          "p_type"?: string;
        };
        Returns: boolean;
      };
      "resolve_failed_event": {
        Args: {
          "event_id": string;
          "of_provider"?: string;
          "reason": string;
          "who"?: string;
        };
        Returns: string;
      };
      "retry_failed_event": {
        Args: { "event_id": string; "of_provider"?: string };
        Returns: string;
      };
      "retry_failed_events": {
        Args: {
          "failed_since"?: string;
          "failed_until"?: string;
          "of_error_code"?: string;
          "of_type"?: string;
        };
        Returns: string;
      };
      "retry_request_answer": { Args: { "asked": number }; Returns: string };
      "revoke_billing_rights": {
        Args: Record<PropertyKey, never>;
        Returns: undefined;
      };
      "schedule_billing_worker": {
        Args: { "project_url": string; "secret_key": string };
        Returns: string;
      };
      "settle_failed_events": { Args: { "results": Json }; Returns: number };
      "settle_notifications": {
        Args: { "p_destination": string; "results": Json };
        Returns: number;
      };
      "unschedule_billing_worker": {
        Args: Record<PropertyKey, never>;
        Returns: string;
      };
      "wake_billing_worker": {
        Args: Record<PropertyKey, never>;
        Returns: boolean;
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
