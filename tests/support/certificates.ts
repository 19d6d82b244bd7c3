/**
 * Certificates for tests, made with OpenSSL: an authority that signs for a server
 * named `localhost` and `abcdefghijklmnopqrst.supabase.co`, without an end. The
 * authority's own key was not kept.
 */

export const AUTHORITY = pem(
  "CERTIFICATE",
  `
MIIBaDCCAQ6gAwIBAgIUE4ntIigaP/wHGqxh3GPM4gcr1aAwCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOVGVzdCBhdXRob3JpdHkwIBcNMjAwMTAxMDAwMDAwWhgPOTk5
OTEyMzEyMzU5NTlaMBkxFzAVBgNVBAMMDlRlc3QgYXV0aG9yaXR5MFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEmfsWFlhn6eBZeV8L5QNfD+V7API753YUPqpPSwz7
1IcU/JI76FEWY+PPnb4ZiO5A6Qxe1PE5gr22H24YhmBGYqMyMDAwDwYDVR0TAQH/
BAUwAwEB/zAdBgNVHQ4EFgQUGqPoCGWyL+pU9VJ9neu0zNGNDI0wCgYIKoZIzj0E
AwIDSAAwRQIhAK1zk0gVbg5gPfhw318mFQwMoAIyHEpwAazjiZZG4JhPAiB3SZac
EDbBEyuMfBrmNaaoWfkJ/Atni6I0mkZStMtQuw==`,
);

export const CERTIFICATE = pem(
  "CERTIFICATE",
  `
MIIBrTCCAVOgAwIBAgIUYw+/A2LJLdMmV4/EnJSSnnoGSbswCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOVGVzdCBhdXRob3JpdHkwIBcNMjAwMTAxMDAwMDAwWhgPOTk5
OTEyMzEyMzU5NTlaMBYxFDASBgNVBAMMC1Rlc3Qgc2VydmVyMFkwEwYHKoZIzj0C
AQYIKoZIzj0DAQcDQgAEQ7vrD6mZUhrl1LNSW0PrI28aKzXH9y4iWrxl57tGeo9j
5eyHjoBYY3zVHjVzAPGN0eawbHulSGVIn5+ybmQdY6N6MHgwNgYDVR0RBC8wLYIJ
bG9jYWxob3N0giBhYmNkZWZnaGlqa2xtbm9wcXJzdC5zdXBhYmFzZS5jbzAdBgNV
HQ4EFgQUhiKFrVyYq7CxABscZnoyAmSHPBowHwYDVR0jBBgwFoAUGqPoCGWyL+pU
9VJ9neu0zNGNDI0wCgYIKoZIzj0EAwIDSAAwRQIgL8S0F1M1FdrBtYyQm7/SJaWQ
mclT7f0vp/6IsdIOKAUCIQC0NtUQzZVYHVkQjFqWyRce5KsMFsxB+xJW+8YBQ0E9
FQ==`,
);

/** The server's key. It guards nothing. */
export const KEY = pem(
  "PRIVATE KEY",
  `
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgQR3Bha1dyoeCVtO6
mWsT8+Q0bV1iZhxtKAA5V0hwtXqhRANCAARDu+sPqZlSGuXUs1JbQ+sjbxorNcf3
LiJavGXnu0Z6j2Pl7IeOgFhjfNUeNXMA8Y3R5rBse6VIZUifn7JuZB1j`,
);

/** Only here, so that nobody takes the key above for a secret. */
function pem(label: string, base64: string): string {
  return `-----BEGIN ${label}-----${base64}\n-----END ${label}-----\n`;
}
