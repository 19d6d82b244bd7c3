/**
 * Failures whose payloads are made to harm the person who looks at them.
 *
 * @module
 */
import type postgres from "postgres";

const SCRIPT =
  `"'></textarea></pre></title><script>alert(1)</script><img src="https://evil.example/x" onerror="alert(2)"><svg onload=alert(3)>`;
const MIB = 1024 * 1024;

/** Of a failed event: its body as it was received, and its errors. */
interface HostileFailure {
  readonly id: string;
  readonly body: string;
  readonly encoding?: "base64";
  readonly code?: string;
  readonly error?: string;
}

/** The failures; each is found under its id. */
export const HOSTILE_FAILURES: readonly HostileFailure[] = [
  {
    id: `evt_${SCRIPT}`,
    body: JSON.stringify({
      id: SCRIPT,
      type: SCRIPT,
      [SCRIPT]: SCRIPT,
      data: { object: { id: SCRIPT, metadata: { accountId: SCRIPT } } },
    }),
    code: SCRIPT,
    error: SCRIPT,
  },
  {
    id: "evt_\u202eabc\u200b\u2066",
    body: JSON.stringify({ a: "\u202e\u0007\u001b[2J\u009b31m\u2028\r\n" }),
    error: "line\r\nline\u0007\u001b]0;x\u0007\u202e",
  },
  { id: "evt_nul", body: '{"a": "\\u0000"}' },
  { id: "evt_surrogate", body: '{"a": "\\ud800"}' },
  { id: "evt_1_mib", body: JSON.stringify({ a: `<b>${"x".repeat(MIB)}` }) },
  {
    id: "evt_1_mib_of_lines",
    body: JSON.stringify({ a: Array.from({ length: MIB / 4 }, () => 1) }),
  },
  {
    id: "evt_1_mib_of_marks",
    body: JSON.stringify({ a: "\u202e".repeat(MIB / 3) }),
  },
  { id: "evt_deep", body: "[".repeat(3_000) + "]".repeat(3_000) },
  {
    id: "evt_number_bomb",
    body: `{"a": [${Array.from({ length: 5_000 }, () => "1e131071").join()}]}`,
  },
  { id: "evt_large_numbers", body: '{"a": 12345678901234567890, "b": 0.10}' },
  { id: "evt_base64", body: btoa("\xff\xfe<script>"), encoding: "base64" },
  { id: "evt_empty", body: "" },
  { id: "evt_/?&#%2F", body: '"</pre>"' },
];

/** Stores them as the receiver does. */
export async function storeHostileFailures(sql: postgres.Sql): Promise<void> {
  for (
    const { id, body, encoding = "text", code = "event_invalid", error = "x" }
      of HOSTILE_FAILURES
  ) {
    await sql`
      select public.billing_record_failed_event(
        p_provider => 'a', p_event_id => ${id}, p_body => ${body},
        p_body_encoding => ${encoding}, p_error_code => ${code},
        p_error => ${error}, p_type => 'customer.subscription.created'
      )`;
  }
}
