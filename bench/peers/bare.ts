export default { fetch: () => new Response("OK") };
