import type { Certificates } from "./certificates.ts";

/** A database server behind TLS, on this machine. */
export interface TlsDatabase extends AsyncDisposable {
  readonly port: number;
  /** How many clients have gone on past the handshake, and what they said. */
  readonly heard: readonly string[];
}

/** PostgreSQL's SSLRequest: its length, and the code for it. */
const SSL_REQUEST_LENGTH = 8;

/** Starts a server that speaks PostgreSQL's TLS in front of a database. */
export function startTlsDatabase(
  { certificate, key }: Certificates,
  { databasePort }: { databasePort: number },
): TlsDatabase {
  const heard: string[] = [];
  const outside = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const inside = Deno.listenTls({
    hostname: "127.0.0.1",
    port: 0,
    cert: certificate,
    key,
  });

  async function greet(client: Deno.TcpConn) {
    await client.read(new Uint8Array(SSL_REQUEST_LENGTH));
    await client.write(new TextEncoder().encode("S"));
    const port = inside.addr.port;
    join(client, await Deno.connect({ hostname: "127.0.0.1", port }));
  }

  async function serve(client: Deno.TlsConn) {
    await client.handshake();
    const index = heard.push("") - 1;
    const port = databasePort;
    join(
      client,
      await Deno.connect({ hostname: "127.0.0.1", port }),
      (text) => {
        heard[index] += text;
      },
    );
  }

  accept(outside, greet);
  accept(inside, serve);
  return {
    port: outside.addr.port,
    heard,
    [Symbol.asyncDispose]: () => {
      outside.close();
      inside.close();
      return Promise.resolve();
    },
  };
}

async function accept<Connection extends Deno.Conn>(
  listener: AsyncIterable<Connection>,
  serve: (client: Connection) => Promise<void>,
): Promise<void> {
  for await (const client of listener) {
    // A client that does not trust the certificate disconnects.
    serve(client).catch(() => client.close());
  }
}

function join(
  client: Deno.Conn,
  server: Deno.Conn,
  onText: (text: string) => void = () => {},
): void {
  const decoder = new TextDecoder();
  const listening = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      onText(decoder.decode(chunk, { stream: true }));
      controller.enqueue(chunk);
    },
  });
  client.readable.pipeThrough(listening).pipeTo(server.writable).catch(
    () => {},
  );
  server.readable.pipeTo(client.writable).catch(() => {});
}
