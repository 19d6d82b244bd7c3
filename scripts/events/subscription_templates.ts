/** What the other two events are made of; real events have more. */
interface Update {
  readonly id: string;
  readonly created: number;
  readonly data: {
    readonly object: {
      readonly created: number;
      readonly canceled_at: number | null;
      readonly cancellation_details: { readonly reason: string | null };
      readonly ended_at: number | null;
      readonly status: string;
      readonly items: object;
      readonly plan: object;
    };
    readonly previous_attributes: {
      readonly items: object;
      readonly plan: object;
    };
  };
  readonly request: { readonly id: string };
}

const WEEK_SECONDS = 604_800;

/**
 * Returns the templates of one API version: the update, the creation before it,
 * which has what the update replaced, and the deletion a week later.
 */
export function subscriptionTemplates<Of extends Update>(updated: Of) {
  const { object, previous_attributes: previous } = updated.data;
  const deletedAt = updated.created + WEEK_SECONDS;
  return {
    "customer.subscription.created": eventOf(updated, {
      name: "Created",
      created: object.created,
      object: {
        ...object,
        ...previous,
        items: { ...object.items, ...previous.items },
        plan: { ...object.plan, ...previous.plan },
      },
    }),
    "customer.subscription.updated": updated,
    "customer.subscription.deleted": eventOf(updated, {
      name: "Deleted",
      created: deletedAt,
      object: {
        ...object,
        canceled_at: deletedAt,
        cancellation_details: {
          ...object.cancellation_details,
          reason: "cancellation_requested",
        },
        ended_at: deletedAt,
        status: "canceled",
      },
    }),
  };
}

function eventOf<Of extends Update>(
  updated: Of,
  { name, created, object }: {
    readonly name: "Created" | "Deleted";
    readonly created: number;
    readonly object: Of["data"]["object"];
  },
) {
  const { id, request } = updated;
  return {
    ...updated,
    id: id.replace("Updated", name),
    created,
    data: { object },
    request: {
      id: request.id.replace("Updated", name),
      idempotency_key: `00000000-0000-4000-8000-00${created}`,
    },
    type: `customer.subscription.${name.toLowerCase()}`,
  };
}
