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

/** What is read from a header: text before the body, time, signatures in hex. */
type Read = [prefix: string, timestamp: number | undefined, hexes: string[]];

function read(
  scheme: SignatureScheme,
  headers: Record<string, string>,
  header: string,
): Read | undefined {
  const claim = scheme.readClaim(new Headers(headers), header);
  return claim && [
    claim.prefix,
    claim.timestamp,
    claim.signatures.map((bytes) => Buffer.from(bytes).toString("hex")),
  ];
}

Deno.test("stripe reads time and signatures, and nothing malformed", () => {
  const v1 = `v1=${HEX}`;
  const cases: [header: string, read: Read | undefined][] = [
    [`t=17,${v1}`, ["17.", 17, [HEX]]],
    [`${v1},t=17`, ["17.", 17, [HEX]]],
    [`t=017,${v1}`, ["017.", 17, [HEX]]],
    [`t=9999999999,${v1}`, ["9999999999.", 9_999_999_999, [HEX]]],
    [`t=17,v1=${HEX.toUpperCase()}`, ["17.", 17, [HEX]]],
    [`t=17,v1=${OTHER},${v1}`, ["17.", 17, [OTHER, HEX]]],
    [`t=17,v0=${OTHER},${v1},v10=${OTHER},=x`, ["17.", 17, [HEX]]],
    // One that is malformed is not verified; it is looked at all the same.
    [`t=17,v1=,v1=zz,v1=${HEX}0,v1=0x${HEX},${v1}`, ["17.", 17, [HEX]]],
    [`t=17,${`v1=${OTHER},`.repeat(7)}${v1}`, [
      "17.",
      17,
      [...Array(7).fill(OTHER), HEX],
    ]],
    [`t=17,${`v1=${OTHER},`.repeat(8)}${v1}`, [
      "17.",
      17,
      Array(8).fill(OTHER),
    ]],
    [`t=17,${"v1=,".repeat(8)}${v1}`, ["17.", 17, []]],
    [`t=17,${`v0=${OTHER},`.repeat(20)}${v1}`, ["17.", 17, [HEX]]],
    ["t=17", ["17.", 17, []]],
    ["", undefined],
    [v1, undefined],
    [`t=17,${v1},`, undefined],
    [`t=17,${v1},x`, undefined],
    [`t=17, ${v1}`, undefined],
    [`t=17,${v1}, t=17,${v1}`, undefined],
    [`t=17,t=17,${v1}`, undefined],
    [`t=17,${v1},t=`, undefined],
    ...["", "123abc", "-1", "+1", "1e9", "0x1", "1.5", "1".repeat(11)].map(
      (time): [string, undefined] => [`t=${time},${v1}`, undefined],
    ),
  ];
  for (const [header, expected] of cases) {
    assertEquals(read(stripe, { h: header }, "h"), expected, header);
  }
  assertEquals(read(stripe, {}, "h"), undefined);
});

Deno.test("hmacSha256Hex reads 64 hex digits, and nothing else", () => {
  for (const header of [HEX, HEX.toUpperCase()]) {
    assertEquals(read(hmacSha256Hex, { h: header }, "h"), ["", undefined, [
      HEX,
    ]]);
  }
  const bad = [
    "",
    HEX.slice(1),
    `${HEX}0`,
    `0x${HEX.slice(2)}`,
    `${HEX}, ${HEX}`,
  ];
  for (const header of [...bad, `g${HEX.slice(1)}`, BASE64, `sha256=${HEX}`]) {
    assertEquals(read(hmacSha256Hex, { h: header }, "h"), undefined, header);
  }
  assertEquals(read(hmacSha256Hex, {}, "h"), undefined);
});

Deno.test("standardWebhooks reads id, time and signatures under one prefix", () => {
  const v1 = `v1,${BASE64}`;
  const ok = (id: string, ...hexes: string[]): Read => [`${id}.17.`, 17, hexes];
  const other = `v1,${Buffer.from(OTHER, "hex").toString("base64")}`;
  const id = "msg_1";
  const cases: [
    [id: string, time: string, signature: string],
    read: Read | undefined,
  ][] = [
    [[id, "17", v1], ok(id, HEX)],
    [[id, "17", `${other} ${v1}`], ok(id, OTHER, HEX)],
    [[id, "17", `v1a,x ${"v2,x ".repeat(20)}${v1}`], ok(id, HEX)],
    [[id, "17", `${`${other} `.repeat(7)}${v1}`], [
      `${id}.17.`,
      17,
      [...Array(7).fill(OTHER), HEX],
    ]],
    [[id, "17", `${`${other} `.repeat(8)}${v1}`], [
      `${id}.17.`,
      17,
      Array(8).fill(OTHER),
    ]],
    // Malformed, or base64 with bits that mean nothing.
    [[id, "17", `v1,c2hvcnQ= v1,${BASE64.slice(0, -1)} ${v1}`], ok(id, HEX)],
    [[id, "17", `v1,${BASE64.replace("8=", "9=")} ${v1}`], ok(id, HEX)],
    [["!#$%&'*+-/~", "17", v1], ok("!#$%&'*+-/~", HEX)],
    [["i".repeat(255), "17", v1], ok("i".repeat(255), HEX)],
    [["", "17", v1], undefined],
    [["i".repeat(256), "17", v1], undefined],
    ...["msg.1", "msg,1", "msg 1", "msg_\u00fc"].map((
      id,
    ): [[string, string, string], undefined] => [[id, "17", v1], undefined]),
    ...["", "17.5", "1".repeat(11), "now"].map((
      time,
    ): [[string, string, string], undefined] => [[id, time, v1], undefined]),
    ...[
      "",
      BASE64,
      "v1",
      "v1,",
      `${v1}  ${v1}`,
      `${v1}, ${v1}`,
      `${v1},${v1}`,
      `${v1}\t${v1}`,
    ].map((signature): [[string, string, string], undefined] => [
      [id, "17", signature],
      undefined,
    ]),
  ];
  for (const [[id, time, signature], expected] of cases) {
    const headers = {
      "svix-id": id,
      "svix-timestamp": time,
      "svix-signature": signature,
    };
    const text = JSON.stringify(headers);
    assertEquals(
      read(standardWebhooks, headers, "svix-signature"),
      expected,
      text,
    );
    const webhook = read(standardWebhooks, headers, "webhook-signature");
    assertEquals(webhook, undefined);
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
  const bad = [
    good,
    `whsec_${btoa("15-bytes-secret")}`,
    `whsec_${good.slice(0, -1)}`,
    `whsec_${good}=`,
    `whsec_${good.slice(0, -3)}-_=`,
    `whsec_${good.slice(0, -3)}!!=`,
    `whsec_${good}\n`,
    "whsec_",
  ];
  for (const secret of bad) {
    const { message } = assertThrows(() => keyBytes(secret), Error);
    assertEquals(message.includes(good.slice(0, 8)), false, message);
  }
});
