import { CERTIFICATE, KEY } from "../support/certificates.ts";

/** PostgreSQL's SSLRequest: its length, and the code for it. */
const SSL_REQUEST_LENGTH = 8;
const HERE = { hostname: "127.0.0.1" };

/**
 * Starts a server on this machine that speaks PostgreSQL's TLS in front of a
 * database. It tells how many clients have gone on past the handshake.
 */
export function startTlsDatabase(databasePort: number) {
  let clients = 0;
  const outside = Deno.listen({ ...HERE, port: 0 });
  const tls = { cert: CERTIFICATE, key: KEY };
  const inside = Deno.listenTls({ ...HERE, port: 0, ...tls });

  accept(outside, async (client) => {
    await client.read(new Uint8Array(SSL_REQUEST_LENGTH));
    await client.write(new TextEncoder().encode("S"));
    join(client, await Deno.connect({ ...HERE, port: inside.addr.port }));
  });
  accept(inside, async (client) => {
    await client.handshake();
    clients++;
    join(client, await Deno.connect({ ...HERE, port: databasePort }));
  });
  return {
    port: outside.addr.port,
    clients: () => clients,
    [Symbol.dispose]: () => {
      outside.close();
      inside.close();
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

function join(client: Deno.Conn, server: Deno.Conn): void {
  client.readable.pipeTo(server.writable).catch(() => {});
  server.readable.pipeTo(client.writable).catch(() => {});
}
