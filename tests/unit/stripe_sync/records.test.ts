import { assertEquals } from "@std/assert";
import { accountsOfCustomers } from "../../../scripts/stripe_sync/records.ts";
import type { DatabaseClient } from "../../../supabase/functions/_shared/billing/database.ts";

Deno.test("accountsOfCustomers() asks once per customer, for ten at a time", async () => {
  const asked: string[] = [];
  let underWay = 0;
  let most = 0;
  const database = {
    rpc: (_name: string, { customer_id }: { customer_id: string }) => ({
      abortSignal: async () => {
        asked.push(customer_id);
        most = Math.max(most, ++underWay);
        await new Promise((resolve) => setTimeout(resolve, 0));
        underWay--;
        const data = customer_id === "cus_3" ? null : `acc_of_${customer_id}`;
        return { data, error: null };
      },
    }),
  } as unknown as DatabaseClient;
  const customers = Array.from({ length: 25 }, (_, i) => `cus_${i}`);
  const accounts = await accountsOfCustomers([...customers, ...customers], {
    database,
    provider: "a",
    wait: () => Promise.resolve(),
  });
  assertEquals([asked, most], [customers, 10]);
  assertEquals([accounts.size, accounts.get("cus_24"), accounts.get("cus_3")], [
    24,
    "acc_of_cus_24",
    undefined,
  ]);
});
