export default {
  async fetch(request: Request): Promise<Response> {
    await request.arrayBuffer(); // unread, it would close the connection
    return new Response("OK");
  },
};
