/** Secrets that are easy to find in a log that must not hold them. */
export const SECRETS = {
  "stripe": "whsec_CATALOGUEsecretOfA",
  "hmac-sha256-hex": "CATALOGUEsecretOfB",
  "standard-webhooks": "whsec_Q0FUQUxPR1VFc2VjcmV0T2ZTdGFuZGFyZA==",
} as const;

/** In every body, so that a payload in a log is found. */
export const PAYLOAD_MARK = "CATALOGUEpayload";
