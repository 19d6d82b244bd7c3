/**
 * nginx's configuration: a server that includes the file `snippet.conf`, with
 * other directives of its own, and the stand-in for Supabase's edge.
 */
export function configuration(
  { folder, ports, projectPort, server, project }: {
    folder: string;
    ports: { own: number; project: number };
    projectPort: number;
    server: string;
    project: string;
  },
): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((kind) => `${kind}_temp_path ${folder}/${kind};`).join("\n  ");
  return `
daemon off;
pid ${folder}/nginx.pid;
error_log stderr warn;
worker_processes 1;
${Deno.uid() === 0 ? "user root;" : ""}
events {
  worker_connections 64;
}
http {
  ${temporary}
  access_log off;
  log_format arrival escape=json '{"name":"$ssl_server_name","host":"$host",'
    '"request":"$request","length":"$http_content_length",'
    '"coding":"$http_transfer_encoding","forwarded":"$http_x_forwarded_for"}';

  server {
    listen 127.0.0.1:${ports.own};
    server_name billing.example.com;
    ${server}
    include ${folder}/snippet.conf;
    location / {
      return 418 "the app's own page";
    }
  }

  server {
    listen 127.0.0.1:${ports.project} ssl default_server;
    ssl_reject_handshake on;
  }
  server {
    listen 127.0.0.1:${ports.project} ssl;
    server_name ${project};
    ssl_certificate ${folder}/project.crt;
    ssl_certificate_key ${folder}/project.key;
    access_log ${folder}/arrivals.log arrival;
    underscores_in_headers on;
    client_max_body_size 0;
    client_body_buffer_size 4m;
    location / {
      proxy_http_version 1.1;
      proxy_pass http://127.0.0.1:${projectPort};
    }
  }
}
`;
}
