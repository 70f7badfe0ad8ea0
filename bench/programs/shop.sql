-- A shop in memory: rows inserted, indexed, joined, grouped, updated and deleted; as text, numbers and JSON.
PRAGMA journal_mode = MEMORY;
CREATE TABLE buyer (id INTEGER PRIMARY KEY, name TEXT, town TEXT);
CREATE TABLE sale (id INTEGER PRIMARY KEY, buyer INTEGER, item TEXT, price REAL, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
  INSERT INTO buyer SELECT i, printf('name %d', i * 7919 % 20011), printf('town %d', i * 31 % 997) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 80000)
  INSERT INTO sale SELECT i, i * 7919 % 20000 + 1, printf('item %x', i * 31 % 4093), i * 37 % 1000 / 10.0,
    substr('sold as seen, without guarantee, to be fetched by the buyer', 1, i % 59) FROM n;
CREATE INDEX sale_buyer ON sale (buyer, price);
CREATE INDEX sale_item ON sale (item COLLATE NOCASE, note);
SELECT town, count(*), round(sum(price)), group_concat(DISTINCT item)
  FROM sale JOIN buyer ON buyer.id = sale.buyer GROUP BY town ORDER BY 3 DESC, town LIMIT 20;
SELECT sum(length(line)) FROM (
  SELECT json_object('name', name, 'items', json_group_array(json_object('item', item, 'price', price))) AS line
  FROM buyer JOIN sale ON sale.buyer = buyer.id GROUP BY buyer.id);
UPDATE sale SET note = upper(note) || item, price = price * 1.1 WHERE id % 3 = 0;
SELECT count(*), max(rank) FROM (SELECT rank() OVER (PARTITION BY item ORDER BY price, id) AS rank FROM sale);
DELETE FROM sale WHERE buyer IN (SELECT id FROM buyer WHERE name LIKE '%7%');
SELECT count(*), sum(length(note)) FROM (SELECT DISTINCT item, note FROM sale ORDER BY note DESC);
VACUUM;
