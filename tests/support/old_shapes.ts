/**
 * Subscriptions as Stripe sent them from 2014 on, each with only the fields that
 * matter here. An account keeps its version for years. What Stripe adds later, it
 * adds to all versions: so `price` stands beside `plan` in the items of old
 * versions too, in events sent since 2020.
 *
 * @module
 */

/** A subscription of one API version, and an update of it. */
export interface OldShape {
  readonly version: string;
  /** Without id, customer and metadata, which are the same in all versions. */
  readonly subscription: object;
  readonly previous: object;
  /** The columns of the record, or the field for which it is refused. */
  readonly becomes: object | string;
}

const PERIOD = {
  current_period_start: 1_790_000_000,
  current_period_end: 1_792_592_000,
};
const OLD_PERIOD = {
  current_period_start: 1_787_408_000,
  current_period_end: 1_790_000_000,
};
const PERIOD_END = new Date(1_792_592_000_000);

const plan = { id: "gold", object: "plan", amount: 1900, interval: "month" };
const oldPlan = { ...plan, id: "silver" };
const price = { id: "gold", object: "price", unit_amount: 1900 };
const oldPrice = { ...price, id: "silver" };

function list(item: object): object {
  return { object: "list", data: [item] };
}

const NOTHING = {
  status: "past_due",
  plan_id: "gold",
  current_period_end: PERIOD_END,
  provider_status: "past_due",
  quantity: null,
  cancel_at: null,
  trial_end: null,
  paused: null,
  livemode: false,
};

export const OLD_SHAPES: readonly OldShape[] = [
  {
    version: "2014-08-20, one plan per subscription",
    subscription: {
      ...PERIOD,
      status: "past_due",
      start: 1_790_000_000,
      plan,
      quantity: 3,
      cancel_at_period_end: false,
      trial_end: null,
    },
    previous: { ...OLD_PERIOD, status: "active", plan: oldPlan, quantity: 1 },
    becomes: "data.object.items is missing",
  },
  {
    version: "2016-07-06, items with plans",
    subscription: {
      ...PERIOD,
      status: "past_due",
      items: list({ id: "si_1", plan, quantity: 3 }),
      plan,
      quantity: 3,
      cancel_at_period_end: false,
    },
    previous: {
      ...OLD_PERIOD,
      status: "active",
      items: list({ id: "si_1", plan: oldPlan, quantity: 1 }),
    },
    becomes: "data.object.items.data[0].price is missing",
  },
  {
    version: "2018-05-21, sent since 2020",
    subscription: {
      ...PERIOD,
      status: "past_due",
      billing: "charge_automatically",
      items: list({ id: "si_1", plan, price, quantity: 3 }),
      plan,
      quantity: 3,
      cancel_at_period_end: true,
      trial_end: 1_790_000_000,
    },
    previous: {
      ...OLD_PERIOD,
      status: "active",
      cancel_at_period_end: false,
      items: list({ id: "si_1", plan: oldPlan, price: oldPrice, quantity: 1 }),
    },
    becomes: {
      ...NOTHING,
      quantity: 3,
      cancel_at: PERIOD_END,
      trial_end: new Date(1_790_000_000_000),
    },
  },
  {
    version: "2020-08-27, several items, the first based on usage",
    subscription: {
      ...PERIOD,
      status: "past_due",
      items: {
        object: "list",
        data: [
          { id: "si_1", price },
          { id: "si_2", price: oldPrice, quantity: 7 },
        ],
      },
      cancel_at: null,
      cancel_at_period_end: false,
      pause_collection: { behavior: "void", resumes_at: null },
    },
    previous: { status: "active", pause_collection: null },
    becomes: { ...NOTHING, paused: "void" },
  },
  {
    version: "2022-11-15, an end that is not that of a period",
    subscription: {
      ...PERIOD,
      status: "past_due",
      items: list({ id: "si_1", plan, price, quantity: 1 }),
      quantity: 1,
      cancel_at: 1_800_000_000,
      cancel_at_period_end: false,
      pause_collection: null,
      test_clock: null,
    },
    previous: { status: "active", cancel_at: null, canceled_at: null },
    becomes: {
      ...NOTHING,
      quantity: 1,
      cancel_at: new Date(1_800_000_000_000),
    },
  },
  {
    version: "2025-03-31.basil, the period in the item",
    subscription: {
      status: "past_due",
      items: list({ ...PERIOD, id: "si_1", plan, price, quantity: 3 }),
      cancel_at: null,
      cancel_at_period_end: true,
      pause_collection: null,
    },
    previous: {
      status: "active",
      items: list({ ...OLD_PERIOD, id: "si_1", plan, price, quantity: 3 }),
    },
    becomes: { ...NOTHING, quantity: 3, cancel_at: PERIOD_END },
  },
];
