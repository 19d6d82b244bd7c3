/**
 * The answers of Supabase's management API, as far as the CLI reads them.
 *
 * @module
 */

/** The project that the stand-in knows; Supabase makes 20 letters. */
export const PROJECT_REF = "abcdefghijklmnopqrst";

const ID = "00000000-0000-4000-8000-000000000001";

/** The account that the access token belongs to. */
export const PROFILE = {
  gotrue_id: ID,
  primary_email: "owner@example.com",
  username: "owner",
};

/** The project. */
export const PROJECT = {
  id: PROJECT_REF,
  ref: PROJECT_REF,
  organization_id: "organization",
  organization_slug: "organization",
  name: "billing",
  region: "eu-central-1",
  created_at: "2026-02-02T02:40:00Z",
  status: "ACTIVE_HEALTHY",
  database: {
    host: `db.${PROJECT_REF}.loopback.invalid`,
    version: "17.6.1.011",
    postgres_engine: "17",
    release_channel: "ga",
  },
};

/** How the project's database is reached through the pooler. */
export function poolerConfig(connectionString: string) {
  return {
    identifier: PROJECT_REF,
    database_type: "PRIMARY",
    is_using_scram_auth: true,
    db_user: "postgres",
    db_host: "pooler.loopback.invalid",
    db_port: 6543,
    db_name: "postgres",
    connection_string: connectionString,
    connectionString,
    default_pool_size: null,
    max_client_conn: null,
    pool_mode: "transaction",
  };
}

/** A function as it is after its deployment. */
export function deployedFunction(name: string) {
  return {
    id: ID,
    slug: name,
    name,
    status: "ACTIVE",
    version: 1,
    created_at: 1_770_000_000_000,
    updated_at: 1_770_000_000_000,
    verify_jwt: false,
  };
}
