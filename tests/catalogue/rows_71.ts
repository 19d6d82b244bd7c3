/** Row 71: more e-mails than the mail API takes at once. */
import { assert, assertEquals } from "@std/assert";
import { deliverPaced } from "../support/paced_delivery.ts";
import type { Row } from "./stage.ts";

const COUNT = 2_000;
const ALLOWED = 2;
const OWN_TIME = (COUNT / ALLOWED) * 1_000;

export const ROW_71: Row = {
  row: 71,
  input: "2,000 e-mails due at once, the mail API takes 2 a second",
  check: async ({ sql }) => {
    const { took, rows, requests } = await deliverPaced(sql, {
      count: COUNT,
      allowed: ALLOWED,
    });
    assertEquals(rows, { "sent 1": COUNT });
    assert(took < 1.2 * OWN_TIME, `It took ${took} ms of virtual time`);
    const accepted = requests.filter(({ status }) => status === 200);
    const keys = new Set(accepted.map(({ key }) => key));
    assertEquals(keys.size, accepted.length, "A mail was sent twice");
  },
};
