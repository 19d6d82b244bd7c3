import { localKeys } from "../../scripts/local_stack/keys.ts";
import { startGateway } from "../../scripts/local_stack/gateway.ts";
import type { ServedFunction } from "./serve_function.ts";

/** A gateway in front of a receiver. */
export interface ReceiverGateway extends AsyncDisposable {
  /** The receiver's address at the project's URL. */
  readonly url: string;
}

/** Puts the local stack's gateway in front of a receiver. */
export async function gatewayTo(
  receiver: ServedFunction,
): Promise<ReceiverGateway> {
  const gateway = await startGateway(0, {
    targets: { webhook: Number(new URL(receiver.url).port) },
    keys: await localKeys(),
  });
  return {
    url: `http://127.0.0.1:${gateway.port}/functions/v1/billing-webhook`,
    [Symbol.asyncDispose]: gateway.close,
  };
}
