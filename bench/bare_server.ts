export default {
  async fetch(request: Request): Promise<Response> {
    await request.arrayBuffer(); // unread, it would cost the connection
    return new Response("OK");
  },
};
