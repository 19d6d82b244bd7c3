import { assertEquals } from "@std/assert";
import { formatAmount } from "../../../supabase/functions/billing-worker/channels/format_amount.ts";

for (
  const [amount, currency, text] of [
    // Two decimals.
    [1900, "eur", "€19.00"],
    [1999, "usd", "$19.99"],
    [123456789, "gbp", "£1,234,567.89"],
    [5, "usd", "$0.05"],
    [0, "eur", "€0.00"],
    [1050, "cad", "CA$10.50"],
    [1050, "chf", "CHF 10.50"],
    // Payouts of these have no decimals, but charges do.
    [1045, "huf", "HUF 10.45"],
    [80045, "twd", "NT$800.45"],
    // Intl knows them without decimals, Stripe has hundredths of them.
    [12300, "rsd", "RSD 123.00"],
    [12300, "lbp", "LBP 123.00"],
    // No decimals.
    [500, "jpy", "¥500"],
    [50_000, "krw", "₩50,000"],
    [500, "vnd", "₫500"],
    [500, "bif", "BIF 500"],
    [500, "clp", "CLP 500"],
    [500, "djf", "DJF 500"],
    [500, "gnf", "GNF 500"],
    [500, "kmf", "KMF 500"],
    [500, "mga", "MGA 500"],
    [500, "pyg", "PYG 500"],
    [500, "rwf", "RWF 500"],
    [500, "vuv", "VUV 500"],
    [500, "xaf", "FCFA 500"],
    [500, "xof", "F CFA 500"],
    [500, "xpf", "CFPF 500"],
    // No decimals, but stated in hundredths.
    [500, "isk", "ISK 5"],
    [500, "ugx", "UGX 5"],
    // Three decimals.
    [5120, "kwd", "KWD 5.120"],
    [5120, "bhd", "BHD 5.120"],
    [5120, "jod", "JOD 5.120"],
    [5120, "omr", "OMR 5.120"],
    [5120, "tnd", "TND 5.120"],
    // Unknown to everybody.
    [1900, "zzz", "ZZZ 19.00"],
    // No digit is lost.
    [Number.MAX_SAFE_INTEGER, "eur", "€90,071,992,547,409.91"],
    [Number.MAX_SAFE_INTEGER, "kwd", "KWD 9,007,199,254,740.991"],
  ] as const
) {
  Deno.test(`formatAmount() writes ${amount} ${currency} as ${text}`, () => {
    assertEquals(formatAmount(amount, currency), text);
  });
}
