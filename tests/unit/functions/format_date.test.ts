import { assertEquals } from "@std/assert";
import { formatDate } from "../../../supabase/functions/billing-worker/channels/format_date.ts";

Deno.test("formatDate() writes the day in UTC, whatever the time zone of the machine", () => {
  const before = Deno.env.get("TZ");
  try {
    for (const zone of ["Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"]) {
      Deno.env.set("TZ", zone);
      assertEquals(
        formatDate("2026-05-03T23:30:00.5+00:00"),
        "3 May 2026 (UTC)",
      );
      assertEquals(formatDate("2026-05-04T00:30:00+02:00"), "3 May 2026 (UTC)");
    }
  } finally {
    if (before === undefined) Deno.env.delete("TZ");
    else Deno.env.set("TZ", before);
  }
});
