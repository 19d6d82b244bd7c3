/** Secrets that are easy to find where they must not be. */
export const SECRETS = {
  "stripe": "whsec_CATALOGUEsecretOfA",
  "hmac-sha256-hex": "CATALOGUEsecretOfB",
  "standard-webhooks": "whsec_Q0FUQUxPR1VFc2VjcmV0T2ZTdGFuZGFyZA==",
} as const;

/** In every body, so that a payload is found where it must not be. */
export const PAYLOAD_MARK = "CATALOGUEpayload";
