/** Currencies that have no smaller unit: Stripe states whole units. */
const WITHOUT_DECIMALS = new Set(
  "bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf".split(" "),
);
const WITH_THREE_DECIMALS = new Set(["bhd", "jod", "kwd", "omr", "tnd"]);
/** Currencies that lost their smaller unit: Stripe still states hundredths. */
const IN_UNUSED_HUNDREDTHS = new Set(["isk", "ugx"]);

/**
 * Returns an amount of money for English readers, such as `€19.00`. The number of decimals
 * follows Stripe's rules, which differ from those of `Intl`: 500 is ISK 5.
 *
 * @param amount In Stripe's smallest unit of the currency.
 * @see https://docs.stripe.com/currencies#zero-decimal
 * @see https://docs.stripe.com/currencies#special-cases
 */
export function formatAmount(amount: number, currency: string): string {
  const decimals = decimalsOf(currency);
  const format = new Intl.NumberFormat("en-US", {
    style: "currency",
    currency,
    minimumFractionDigits: IN_UNUSED_HUNDREDTHS.has(currency) ? 0 : decimals,
    maximumFractionDigits: decimals,
  });

  // As text, because a division may round. Versions of Intl use different spaces.
  return format.format(`${amount}e-${decimals}` as `${number}`)
    .replaceAll(/\s/g, " ");
}

function decimalsOf(currency: string): number {
  if (WITHOUT_DECIMALS.has(currency)) return 0;
  return WITH_THREE_DECIMALS.has(currency) ? 3 : 2;
}
