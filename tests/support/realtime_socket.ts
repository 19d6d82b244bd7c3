/**
 * A stand-in for Realtime's end of a client's WebSocket, as far as joining a
 * channel and a broadcast go. It lets a client in only to a private channel and
 * with a token, and it answers later, never within a call.
 *
 * Messages are arrays of join reference, reference, topic, event and payload
 * (supabase.com/docs/guides/realtime/protocol).
 */
export interface RealtimeServer {
  /** What a client's `transport` option takes. */
  readonly transport: never;
  /** The joins that it has seen. */
  readonly joins: readonly Join[];
  /** Sends a broadcast to the clients that have joined a topic. */
  broadcast(topic: string, event: string): void;
  /** Ends every connection, as a network does. */
  drop(): void;
}

/** What a client said when it joined. */
export interface Join {
  readonly topic: string;
  readonly isPrivate: boolean;
  readonly token: string | undefined;
}

type Message = [string | null, string | null, string, string, {
  config?: { private?: boolean };
  access_token?: string;
}];

/** Starts with no connection. */
export function realtimeServer(): RealtimeServer {
  const joins: Join[] = [];
  const sockets = new Set<Socket>();

  class Socket extends EventTarget {
    readonly CONNECTING = 0;
    readonly OPEN = 1;
    readonly CLOSING = 2;
    readonly CLOSED = 3;
    readonly protocol = "";
    readyState = 0;
    onopen: ((event: Event) => void) | null = null;
    onmessage: ((event: MessageEvent) => void) | null = null;
    onclose: ((event: Event) => void) | null = null;
    onerror: ((event: Event) => void) | null = null;
    /** Join references by topic. */
    readonly topics = new Map<string, string | null>();

    constructor(readonly url: string) {
      super();
      setTimeout(() => {
        this.readyState = 1;
        sockets.add(this);
        this.onopen?.(new Event("open"));
      });
    }

    send(data: string) {
      const [join, reference, topic, event, payload]: Message = JSON.parse(
        data,
      );
      if (event === "phx_join") this.#join(join, topic, payload);
      if (event === "phx_leave") this.topics.delete(topic);
      const isIn = event !== "phx_join" || this.topics.has(topic);
      const reply = { status: isIn ? "ok" : "error", response: {} };
      this.push([join, reference, topic, "phx_reply", reply]);
    }

    #join(join: string | null, topic: string, payload: Message[4]) {
      const isPrivate = payload.config?.private === true;
      joins.push({ topic, isPrivate, token: payload.access_token });
      if (isPrivate && payload.access_token) this.topics.set(topic, join);
    }

    push(message: unknown[]) {
      const data = JSON.stringify(message);
      setTimeout(() => this.onmessage?.(new MessageEvent("message", { data })));
    }

    close() {
      sockets.delete(this);
      this.readyState = 3;
      setTimeout(() => this.onclose?.(new CloseEvent("close")));
    }
  }

  return {
    transport: Socket as never,
    joins,
    broadcast: (topic, event) => {
      for (const socket of sockets) {
        if (!socket.topics.has(topic)) continue;
        const payload = { type: "broadcast", event, payload: {} };
        const join = socket.topics.get(topic);
        socket.push([join, null, topic, "broadcast", payload]);
      }
    },
    drop: () => {
      for (const socket of sockets) socket.close();
    },
  };
}
