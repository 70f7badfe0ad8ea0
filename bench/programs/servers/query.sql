-- A report of one transaction of pgbench: a sort, hash aggregates, a window, and JSON.
\set low random(1, 95000)
with part as (
  select aid, bid, abalance, md5(aid::text) as code from pgbench_accounts where aid between :low and :low + 1500
), grouped as (
  select left(code, 2) as head, count(*) as many, sum(abalance) as total, string_agg(code, ',' order by code desc) as codes,
         jsonb_agg(jsonb_build_object('id', aid, 'balance', abalance)) as accounts
  from part group by 1
)
select head, many, total, length(codes), jsonb_array_length(accounts), rank() over (order by total desc, codes) from grouped order by codes;
