/**
 * Certificates for tests, made here: an authority, and a server that it signs
 * for. X.509 (RFC 5280) in DER, as little of it as TLS asks for.
 *
 * @module
 */
import { Buffer } from "node:buffer";

/** In PEM. */
export interface Certificates {
  readonly authority: string;
  readonly certificate: string;
  readonly key: string;
}

const ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const ECDSA_WITH_SHA256 = sequence(oid("2a8648ce3d040302"));
const DAY_MS = 86_400_000;

/** Makes an authority, and a certificate of its for one host name. */
export async function makeCertificates(host: string): Promise<Certificates> {
  const authority = await generateKeys();
  const server = await generateKeys();
  const name = nameOf("Test authority");
  const root = await certificate({
    issuer: name,
    subject: name,
    keys: authority,
    signer: authority,
    // basicConstraints: it may sign.
    extension: [oid("551d13"), der(0x01, [0xff]), sequence(der(0x01, [0xff]))],
  });
  const leaf = await certificate({
    issuer: name,
    subject: nameOf(host),
    keys: server,
    signer: authority,
    // subjectAltName: one DNS name.
    extension: [oid("551d11"), sequence(der(0x82, [...Buffer.from(host)]))],
  });
  const key = await crypto.subtle.exportKey("pkcs8", server.privateKey);
  return {
    authority: pem("CERTIFICATE", root),
    certificate: pem("CERTIFICATE", leaf),
    key: pem("PRIVATE KEY", new Uint8Array(key)),
  };
}

async function certificate(
  { issuer, subject, keys, signer, extension }: {
    issuer: Uint8Array;
    subject: Uint8Array;
    keys: CryptoKeyPair;
    signer: CryptoKeyPair;
    extension: readonly Uint8Array[];
  },
): Promise<Uint8Array> {
  const [id, ...rest] = extension;
  const value = rest.pop()!;
  const publicKey = await crypto.subtle.exportKey("spki", keys.publicKey);
  const signed = sequence(
    der(0xa0, [...der(0x02, [2])]), // version 3
    der(0x02, [1, ...crypto.getRandomValues(new Uint8Array(8))]),
    ECDSA_WITH_SHA256,
    issuer,
    sequence(time(Date.now() - DAY_MS), time(Date.now() + DAY_MS)),
    subject,
    new Uint8Array(publicKey),
    der(0xa3, [
      ...sequence(sequence(id!, ...rest, der(0x04, [...value]))),
    ]),
  );
  const raw = new Uint8Array(
    await crypto.subtle.sign(
      ALGORITHM,
      signer.privateKey,
      new Uint8Array(signed),
    ),
  );
  const signature = sequence(
    unsigned(raw.slice(0, raw.length / 2)),
    unsigned(raw.slice(raw.length / 2)),
  );
  return sequence(
    signed,
    ECDSA_WITH_SHA256,
    der(0x03, [0, ...signature]),
  );
}

function generateKeys(): Promise<CryptoKeyPair> {
  return crypto.subtle.generateKey(ALGORITHM, true, ["sign", "verify"]);
}

function nameOf(commonName: string): Uint8Array {
  const text = der(0x0c, [...Buffer.from(commonName)]);
  return sequence(der(0x31, [...sequence(oid("550403"), text)]));
}

function time(milliseconds: number): Uint8Array {
  const digits = new Date(milliseconds).toISOString().replace(/\D/g, "");
  return der(0x17, [...Buffer.from(`${digits.slice(2, 14)}Z`)]);
}

function unsigned(bytes: Uint8Array): Uint8Array {
  const start = bytes.findIndex((byte) => byte !== 0);
  const rest = [...bytes.slice(start)];
  return der(0x02, (rest[0] ?? 0) > 0x7f ? [0, ...rest] : rest);
}

function oid(hex: string): Uint8Array {
  return der(0x06, [...Buffer.from(hex, "hex")]);
}

function sequence(...parts: readonly Uint8Array[]): Uint8Array {
  return der(0x30, parts.flatMap((part) => [...part]));
}

/** Tag, length, value (X.690, section 8.1). */
function der(tag: number, value: readonly number[]): Uint8Array {
  const { length } = value;
  const size = length < 0x80
    ? [length]
    : length < 0x100
    ? [0x81, length]
    : [0x82, length >> 8, length & 0xff];
  return Uint8Array.from([tag, ...size, ...value]);
}

function pem(label: string, bytes: Uint8Array): string {
  const lines = Buffer.from(bytes).toString("base64").match(/.{1,64}/g) ?? [];
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ""]
    .join("\n");
}
