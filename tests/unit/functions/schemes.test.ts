import { assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import {
  hmacSha256Hex,
  type SignatureScheme,
  standardWebhooks,
  stripe,
} from "../../../supabase/functions/billing-webhook/schemes.ts";

const HEX = "0123456789abcdef".repeat(4);
const OTHER = "f".repeat(64);
const BASE64 = Buffer.from(HEX, "hex").toString("base64");

/** Puts signatures into a header: H and O, and U for H in upper case. */
function filled(text: string, encode: (hex: string) => string): string {
  return text.replaceAll("H", encode(HEX)).replaceAll("O", encode(OTHER))
    .replaceAll("U", HEX.toUpperCase());
}

/** Returns what is read of headers: text before the body, time, and letters. */
function read(
  scheme: SignatureScheme,
  headers: Record<string, string>,
  header = "h",
): string | undefined {
  const claim = scheme.readClaim(new Headers(headers), header);
  const letters = claim?.signatures.map((bytes) => {
    const hex = Buffer.from(bytes).toString("hex");
    return hex === HEX ? "H" : hex === OTHER ? "O" : hex;
  });
  return claim && `${claim.prefix} ${claim.timestamp} ${letters!.join("")}`;
}

Deno.test("stripe reads time and signatures, and nothing malformed", () => {
  const cases: [read: string | undefined, ...headers: string[]][] = [
    ["17. 17 H", "t=17,v1=H", "v1=H,t=17", "t=17,v1=U"],
    ["17. 17 H", "t=17,v0=O,v1=H,v10=O,=x", `t=17,${"v0=O,".repeat(20)}v1=H`],
    ["017. 17 H", "t=017,v1=H"],
    ["9999999999. 9999999999 H", "t=9999999999,v1=H"],
    ["17. 17 OH", "t=17,v1=O,v1=H"],
    // One that is malformed is not verified; it is looked at all the same.
    ["17. 17 H", "t=17,v1=,v1=zz,v1=H0,v1=0xH,v1=H"],
    ["17. 17 ", "t=17", `t=17,${"v1=,".repeat(8)}v1=H`],
    ["17. 17 OOOOOOOH", `t=17,${"v1=O,".repeat(7)}v1=H`],
    ["17. 17 OOOOOOOO", `t=17,${"v1=O,".repeat(8)}v1=H`],
    [undefined, "", "v1=H", "t=17,v1=H,", "t=17,v1=H,x", "t=17, v1=H"],
    [undefined, "t=17,v1=H, t=17,v1=H", "t=17,t=17,v1=H", "t=17,v1=H,t="],
    [undefined, "t=,v1=H", "t=123abc,v1=H", "t=-1,v1=H", "t=+1,v1=H"],
    [undefined, "t=1e9,v1=H", "t=0x1,v1=H", "t=1.5,v1=H", "t=11111111111,v1=H"],
  ];
  for (const [expected, ...headers] of cases) {
    for (const header of headers) {
      const h = filled(header, (hex) => hex);
      assertEquals(read(stripe, { h }), expected, header);
    }
  }
  assertEquals(read(stripe, {}), undefined);
});

Deno.test("hmacSha256Hex reads 64 hex digits, and nothing else", () => {
  const cases: [read: string | undefined, ...headers: string[]][] = [
    [" undefined H", "H", "U"],
    [undefined, "", "H0", "0xH", "H, H", "sha256=H", HEX.slice(1)],
    [undefined, `g${HEX.slice(1)}`, BASE64, `${HEX.slice(1)}g`],
  ];
  for (const [expected, ...headers] of cases) {
    for (const header of headers) {
      const h = filled(header, (hex) => hex);
      assertEquals(read(hmacSha256Hex, { h }), expected, header);
    }
  }
  assertEquals(read(hmacSha256Hex, {}), undefined);
});

Deno.test("standardWebhooks reads id, time and signatures under one prefix", () => {
  const most = "i".repeat(255);
  const odd = BASE64.replace("8=", "9=");
  type Row = [read: string | undefined, id: string, time: string, ...string[]];
  const cases: Row[] = [
    [
      "msg_1.17. 17 H",
      "msg_1",
      "17",
      "v1,H",
      `v1a,x ${"v2,x ".repeat(20)}v1,H`,
    ],
    // Malformed, or base64 with bits that mean nothing.
    ["msg_1.17. 17 H", "msg_1", "17", `v1,c2hvcnQ= v1,${odd} v1,H= v1,H`],
    ["msg_1.17. 17 OH", "msg_1", "17", "v1,O v1,H"],
    ["msg_1.17. 17 OOOOOOOH", "msg_1", "17", `${"v1,O ".repeat(7)}v1,H`],
    ["msg_1.17. 17 OOOOOOOO", "msg_1", "17", `${"v1,O ".repeat(8)}v1,H`],
    ["!#$%&'*+-/~.17. 17 H", "!#$%&'*+-/~", "17", "v1,H"],
    [`${most}.17. 17 H`, most, "17", "v1,H"],
    ...["", `${most}i`, "msg.1", "msg,1", "msg 1", "msg_\u00fc"]
      .map((id): Row => [undefined, id, "17", "v1,H"]),
    ...["", "17.5", "1".repeat(11), "now"]
      .map((time): Row => [undefined, "msg_1", time, "v1,H"]),
    [
      undefined,
      "msg_1",
      "17",
      "",
      "H",
      "v1",
      "v1,",
      "v1,H  v1,H",
      "v1,H, v1,H",
    ],
    [undefined, "msg_1", "17", "v1,H,v1,H", "v1,H\tv1,H"],
  ];
  const base64 = (hex: string) => Buffer.from(hex, "hex").toString("base64");
  for (const [expected, id, time, ...signatures] of cases) {
    for (const signature of signatures) {
      const headers = {
        "svix-id": id,
        "svix-timestamp": time,
        "svix-signature": filled(signature, base64),
      };
      const found = read(standardWebhooks, headers, "svix-signature");
      assertEquals(found, expected, `${id} ${time} ${signature}`);
      assertEquals(read(standardWebhooks, headers, "x-signature"), undefined);
    }
  }
});

Deno.test("keyBytes() returns the whole secret, or the bytes after whsec_", () => {
  const text = new TextEncoder();
  for (const { keyBytes } of [stripe, hmacSha256Hex]) {
    assertEquals(keyBytes("whsec_ü"), text.encode("whsec_ü"));
  }
  const { keyBytes } = standardWebhooks;
  for (const length of [16, 17, 18, 24, 64]) {
    const secret = "s".repeat(length);
    assertEquals(keyBytes(`whsec_${btoa(secret)}`), text.encode(secret));
  }
  const good = btoa("s".repeat(17));
  const short = btoa("15-bytes-secret");
  const bad = [short, good.slice(0, -1), `${good}=`, `${good}\n`, ""];
  const cut = good.slice(0, -3);
  const all = [...bad, `${cut}-_=`, `${cut}!!=`].map((text) => `whsec_${text}`);
  for (const secret of [good, ...all]) {
    const { message } = assertThrows(() => keyBytes(secret), Error);
    assertEquals(message.includes(good.slice(0, 8)), false, message);
  }
});
