/** A certificate and its key, as PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

const SEQUENCE = 0x30;
const INTEGER = 0x02;
/** By RFC 5758, 3.2: 1.2.840.10045.4.3.2. */
const ECDSA_WITH_SHA256 = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
/** By RFC 5280, appendix A: 2.5.4.3 and 2.5.29.17. */
const COMMON_NAME = [0x55, 0x04, 0x03];
const SUBJECT_ALT_NAME = [0x55, 0x1d, 0x11];

/**
 * Makes a certificate for `localhost` that nobody trusts, valid from 2020 to
 * 2049, in the form of RFC 5280, 4.1.
 */
export async function selfSignedCertificate(): Promise<Certificate> {
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const { publicKey, privateKey } = await crypto.subtle.generateKey(
    algorithm,
    true,
    ["sign", "verify"],
  );
  const spki = new Uint8Array(await crypto.subtle.exportKey("spki", publicKey));
  const signing = der(SEQUENCE, objectId(ECDSA_WITH_SHA256));
  const name = der(
    SEQUENCE,
    der(0x31, der(SEQUENCE, objectId(COMMON_NAME), text(0x0c, "localhost"))),
  );
  const altName = der(
    SEQUENCE,
    objectId(SUBJECT_ALT_NAME),
    der(0x04, der(SEQUENCE, text(0x82, "localhost"))),
  );
  const content = der(
    SEQUENCE,
    der(0xa0, der(INTEGER, [2])),
    der(INTEGER, [1]),
    signing,
    name,
    der(SEQUENCE, text(0x17, "200101000000Z"), text(0x17, "491231235959Z")),
    name,
    spki,
    der(0xa3, der(SEQUENCE, altName)),
  );
  const signature = new Uint8Array(
    await crypto.subtle.sign(algorithm, privateKey, content),
  );
  const cert = der(
    SEQUENCE,
    content,
    signing,
    der(0x03, [0], derSignature(signature)),
  );
  const pkcs8 = await crypto.subtle.exportKey("pkcs8", privateKey);
  return {
    cert: pem("CERTIFICATE", cert),
    key: pem("PRIVATE KEY", new Uint8Array(pkcs8)),
  };
}

// WebCrypto has both numbers in one row, X.509 each as an INTEGER.
function derSignature(signature: Uint8Array): Uint8Array<ArrayBuffer> {
  const half = signature.length / 2;
  return der(
    SEQUENCE,
    ...[signature.subarray(0, half), signature.subarray(half)].map((bytes) => {
      const start = bytes.findIndex((byte) => byte !== 0);
      const number = [...bytes.subarray(start)];
      return der(INTEGER, number[0]! >= 0x80 ? [0, ...number] : number);
    }),
  );
}

function der(
  tag: number,
  ...parts: (Uint8Array | number[])[]
): Uint8Array<ArrayBuffer> {
  const content = parts.flatMap((part) => [...part]);
  const { length } = content;
  const size = length < 0x80
    ? [length]
    : length < 0x100
    ? [0x81, length]
    : [0x82, length >> 8, length & 0xff];
  return Uint8Array.from([tag, ...size, ...content]);
}

function objectId(bytes: number[]): Uint8Array {
  return der(0x06, bytes);
}

function text(tag: number, value: string): Uint8Array {
  return der(tag, new TextEncoder().encode(value));
}

function pem(label: string, bytes: Uint8Array): string {
  return `-----BEGIN ${label}-----\n${
    bytes.toBase64().replaceAll(/.{64}/g, "$&\n")
  }\n-----END ${label}-----\n`;
}
