/*
 * account_email as it ships: an account is a user of Supabase Auth. There are
 * no users on the local stack, so this file makes the table that the function
 * reads, and takes it back.
 */
begin;
select plan(11);

create temporary view accounts as
select 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' as known, 'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' as unknown;
grant select on accounts to service_role;

select hasnt_table('auth', 'users', 'there are no users of Supabase Auth yet');
set local role service_role;
select is(
  public.account_email((select known from accounts)), null,
  'without users of Supabase Auth nobody has an address'
);

reset role;
create table auth.users (id uuid primary key, email text);
insert into auth.users
select known::uuid, 'owner@example.com' from accounts
union all
values
  ('c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, null),
  ('d0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, '');

set local role service_role;
select throws_ok(
  'select email from auth.users', '42501', null,
  'service_role may not read the users itself'
);
select is(
  public.account_email((select known from accounts)), 'owner@example.com',
  'it is given the address of the user whose id is the account''s'
);
select is(
  public.account_email((select upper(known) from accounts)), 'owner@example.com',
  'however the id is written'
);
select is(
  public.account_email((select unknown from accounts)), null,
  'an account that is no user has no address'
);
select is(
  public.account_email('c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), null,
  'a user without an address has none'
);
select is(
  public.account_email('d0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), null,
  'nor has one whose address is empty'
);
select is_empty(
  $$select account
    from unnest(array[
      'acc_1', '', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1', 'a0eebc999c0b4ef8bb6d6bb9bd380a11',
      'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 ', E'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\n',
      'g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', ''' or true --'
    ]) as a (account)
    where public.account_email(account) is not null$$,
  'an account id that is no uuid has no address, and raises nothing'
);
select is(public.account_email(null), null, 'nor has no account at all');

-- The function runs with its owner's rights, so nobody may bring names of their own.
create temporary table users as select gen_random_uuid() as id, 'thief@example.com' as email;
set local search_path = pg_temp, auth, public, extensions;
select is(
  public.account_email((select known from accounts)), 'owner@example.com',
  'no table of the caller''s stands in for the users'
);

select * from finish();
rollback;
