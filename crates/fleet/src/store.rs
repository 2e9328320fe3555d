//! All answers as a table to ask SQL of: `SELECT server, Time, Info FROM answers ORDER BY Time DESC LIMIT 10`.
//!
//! SQLite, in a file without a name: what does not fit into its cache goes to the disk. Two tables: `answers` has the
//! name of the `server` and the columns of all answers by name (those that a server did not have are NULL); `servers`
//! has every server that was asked, how it ended, and its tags.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, params_from_iter};
use thiserror::Error;

use crate::failure::Failure;
use crate::piece::{Columns, Ended, Piece};
use crate::wire::answer::{Column, Kind};
use crate::wire::rows::{Row, Rows};

/// What SQLite may hold in memory, KiB (`PRAGMA cache_size` takes it with a minus).
const CACHE_KIB: i64 = 16 << 10;
/// Rows of a result that are handed on at once, bytes.
const RESULT_BYTES: usize = 64 << 10;

/// What went wrong between here and SQLite.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The user's SQL.
    #[error("--sql: {error}; {tables}")]
    Sql {
        /// SQLite's words.
        error: String,
        /// What could be asked.
        tables: String,
    },
    /// Anything else, such as a full disk.
    #[error("answers could not be kept: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

/// Answers that are kept.
pub struct Store {
    db: Connection,
    /// The columns of `answers` behind `server`, by their names in lower case.
    columns: HashMap<String, usize>,
    names: Vec<String>,
    /// Where the columns of an answer go: most answers have the same ones.
    layouts: HashMap<Columns, Arc<Layout>>,
}

struct Layout {
    insert: String,
    kinds: Vec<Kind>,
}

/// How a server ended, as `servers` has it.
pub struct ServerEnd<'a> {
    /// The server's name.
    pub server: &'a str,
    /// The server's tags.
    pub tags: &'a BTreeMap<String, String>,
    /// Its outcome; None where it was not asked.
    pub end: Option<&'a Result<Ended, Failure>>,
}

impl Store {
    /// A store without answers.
    pub fn new() -> Result<Self, StoreError> {
        // An empty name is a private file that goes with the connection.
        let db = Connection::open(Path::new(""))?;
        db.execute_batch(&format!(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE; \
             PRAGMA cache_size = -{CACHE_KIB}; CREATE TABLE answers (server TEXT); BEGIN"
        ))?;
        Ok(Self { db, columns: HashMap::new(), names: Vec::new(), layouts: HashMap::new() })
    }

    /// Takes a piece of this server's answer. Rows of an answer that failed later are taken out again.
    pub fn add(&mut self, server: &str, piece: &Piece) -> Result<(), StoreError> {
        if let Some(Err(_)) = piece.end {
            if piece.part > 0 {
                self.db.execute("DELETE FROM answers WHERE server = ?", [server])?;
            }
            return Ok(());
        }
        if piece.columns.is_empty() {
            return Ok(());
        }
        let layout = self.layout(&piece.columns)?;
        let mut insert = self.db.prepare_cached(&layout.insert)?;
        for row in piece.rows.iter() {
            let name = std::iter::once(ToSqlOutput::Borrowed(ValueRef::Text(server.as_bytes())));
            insert.execute(params_from_iter(name.chain(values(row, &layout.kinds))))?;
        }
        Ok(())
    }

    fn layout(&mut self, columns: &Columns) -> Result<Arc<Layout>, StoreError> {
        if let Some(layout) = self.layouts.get(columns) {
            return Ok(layout.clone());
        }
        let mut places: Vec<String> = vec!["server".to_owned()];
        let mut taken: Vec<String> = vec!["server".to_owned()];
        for column in columns.iter() {
            // A name that stands twice in an answer, or is taken by `server`, gets a number.
            let mut name = if column.name.is_empty() { "column".to_owned() } else { column.name.clone() };
            let mut number = 2;
            while taken.contains(&name.to_lowercase()) {
                name = format!("{}_{number}", column.name);
                number += 1;
            }
            let lower = name.to_lowercase();
            taken.push(lower.clone());
            if !self.columns.contains_key(&lower) {
                // Texts compare as MySQL's do by default: 'a' = 'A'.
                let collation = if column.kind == Kind::Text { " COLLATE NOCASE" } else { "" };
                self.db
                    .execute_batch(&format!("ALTER TABLE answers ADD COLUMN {}{collation}", quoted(&name)))?;
                self.columns.insert(lower.clone(), self.names.len());
                self.names.push(name);
            }
            places.push(self.names[self.columns[&lower]].clone());
        }
        let list: Vec<String> = places.iter().map(|name| quoted(name)).collect();
        let marks = vec!["?"; places.len()].join(", ");
        let layout = Arc::new(Layout {
            insert: format!("INSERT INTO answers ({}) VALUES ({marks})", list.join(", ")),
            kinds: columns.iter().map(|column| column.kind).collect(),
        });
        self.layouts.insert(columns.clone(), layout.clone());
        Ok(layout)
    }

    /// No more answers come: writes who was asked, and how each ended.
    pub fn finish<'a>(
        &mut self,
        servers: impl Iterator<Item = ServerEnd<'a>> + Clone,
    ) -> Result<(), StoreError> {
        const OWN: [&str; 6] = ["server", "state", "reason", "error", "ms", "version"];
        let mut tags: Vec<&str> = Vec::new();
        for ends in servers.clone() {
            for tag in ends.tags.keys() {
                if !tags.contains(&tag.as_str()) {
                    tags.push(tag);
                }
            }
        }
        let name = |tag: &str| match OWN.iter().any(|own| own.eq_ignore_ascii_case(tag)) {
            true => quoted(&format!("tag_{tag}")),
            false => quoted(tag),
        };
        let mut columns: Vec<String> = OWN.map(str::to_owned).into();
        let mut unlike: Vec<String> = columns.clone();
        let mut kept: Vec<&str> = Vec::new();
        for tag in tags {
            // For SQLite DC and dc are one name.
            let column = name(tag);
            if !unlike.contains(&column.to_lowercase()) {
                unlike.push(column.to_lowercase());
                columns.push(column);
                kept.push(tag);
            }
        }
        self.db.execute_batch(&format!("CREATE TABLE servers ({})", columns.join(", ")))?;
        let marks = vec!["?"; columns.len()].join(", ");
        let mut insert = self.db.prepare(&format!("INSERT INTO servers VALUES ({marks})"))?;
        for ends in servers {
            let text = |text: &str| Value::Text(text.to_owned());
            let mut row = vec![text(ends.server)];
            row.extend(match ends.end {
                None => [text("not asked"), Value::Null, Value::Null, Value::Null, Value::Null],
                Some(Ok(end)) => {
                    [text("answered"), Value::Null, Value::Null, Value::Real(end.ms), text(&end.version)]
                }
                Some(Err(failure)) => {
                    let (reason, error) = (text(failure.reason.name()), text(&failure.error));
                    [text("failed"), reason, error, Value::Null, Value::Null]
                }
            });
            row.extend(kept.iter().map(|tag| ends.tags.get(*tag).map_or(Value::Null, |value| text(value))));
            insert.execute(params_from_iter(row))?;
        }
        Ok(())
    }

    /// Runs SQL over the answers; gives its columns, then its rows, some at a time.
    pub fn query<E: From<StoreError>>(
        &self,
        sql: &str,
        take: &mut dyn FnMut(&Columns, &Rows) -> Result<(), E>,
    ) -> Result<(), E> {
        self.materialise(sql)?;
        let columns = self.result_columns().map_err(StoreError::from)?;
        let mut statement =
            self.db.prepare("SELECT * FROM temp.result ORDER BY rowid").map_err(StoreError::from)?;
        let mut result = statement.query([]).map_err(StoreError::from)?;
        let (mut rows, mut is_first) = (Rows::default(), true);
        loop {
            let row = result.next().map_err(StoreError::from)?;
            if let Some(row) = row {
                let cells: Vec<Option<Vec<u8>>> = (0..columns.len())
                    .map(|at| row.get_ref(at).map(bytes))
                    .collect::<Result<_, _>>()
                    .map_err(StoreError::from)?;
                rows.push(cells.iter().map(Option::as_deref));
            }
            if row.is_none() && (is_first || !rows.is_empty()) || rows.bytes() >= RESULT_BYTES {
                take(&columns, &std::mem::take(&mut rows))?;
                is_first = false;
            }
            if row.is_none() {
                return Ok(());
            }
        }
    }

    fn materialise(&self, sql: &str) -> Result<(), StoreError> {
        let sql = sql.trim().trim_end_matches(';');
        self.db.execute_batch("DROP TABLE IF EXISTS temp.result")?;
        // A result is kept before it is shown: the kind of a column is that of all its values.
        self.db
            .execute(&format!("CREATE TEMP TABLE result AS {sql}"), [])
            .map_err(|error| StoreError::Sql { error: error.to_string(), tables: self.tables() })?;
        Ok(())
    }

    /// What can be asked, in a sentence.
    fn tables(&self) -> String {
        let columns: Vec<&str> =
            std::iter::once("server").chain(self.names.iter().map(String::as_str)).collect();
        format!("the tables are answers ({}) and servers", columns.join(", "))
    }

    fn result_columns(&self) -> Result<Columns, rusqlite::Error> {
        let statement = self.db.prepare("SELECT * FROM temp.result")?;
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        names
            .into_iter()
            .map(|name| {
                let sql = format!("SELECT DISTINCT typeof({}) FROM temp.result", quoted(&name));
                let mut statement = self.db.prepare(&sql)?;
                let kinds: Vec<String> =
                    statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
                let has = |kind: &str| kinds.iter().any(|seen| seen == kind);
                let kind = match () {
                    () if has("blob") => Kind::Bytes,
                    () if has("text") => Kind::Text,
                    () if has("real") => Kind::Real,
                    () if has("integer") => Kind::Integer,
                    () => Kind::Text,
                };
                Ok(Column { name, kind })
            })
            .collect()
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\"").replace('\0', ""))
}

/// The cells of a row as SQLite takes them.
fn values<'a>(row: Row<'a>, kinds: &'a [Kind]) -> impl Iterator<Item = ToSqlOutput<'a>> {
    row.cells().zip(kinds).map(|(cell, kind)| {
        let Some(bytes) = cell else { return ToSqlOutput::Owned(Value::Null) };
        let Ok(text) = std::str::from_utf8(bytes) else {
            return match kind {
                Kind::Bytes => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
                _ => ToSqlOutput::Owned(Value::Text(String::from_utf8_lossy(bytes).into_owned())),
            };
        };
        let number = match kind {
            Kind::Integer => text.parse().ok().map(Value::Integer),
            Kind::Real | Kind::Decimal => text.parse().ok().filter(|n: &f64| n.is_finite()).map(Value::Real),
            Kind::Text | Kind::Bytes => None,
        };
        number.map_or(ToSqlOutput::Borrowed(ValueRef::Text(bytes)), ToSqlOutput::Owned)
    })
}

fn bytes(value: ValueRef<'_>) -> Option<Vec<u8>> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string().into_bytes()),
        ValueRef::Real(number) => Some(number.to_string().into_bytes()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Reason;

    fn columns(list: &[(&str, Kind)]) -> Columns {
        list.iter().map(|(name, kind)| Column { name: (*name).to_owned(), kind: *kind }).collect()
    }

    fn piece(part: u32, columns: &Columns, rows: &[&[Option<&str>]], ended: bool) -> Piece {
        let mut packed = Rows::default();
        for row in rows {
            packed.push(row.iter().map(|cell| cell.map(str::as_bytes)));
        }
        let end = ended.then(|| Ok(Ended { ms: 1.5, version: "9.7.4".into() }));
        Piece { server: 0, columns: columns.clone(), rows: packed, part, end }
    }

    fn ask(store: &Store, sql: &str) -> Result<String, StoreError> {
        let mut ends = String::new();
        store.query(sql, &mut |columns, rows| {
            for (at, column) in columns.iter().enumerate() {
                ends.push_str(&format!("{}{}:{:?}", if at > 0 { " " } else { "" }, column.name, column.kind));
            }
            for row in rows.iter() {
                let cells = row.cells().map(|cell| {
                    cell.map_or("NULL".to_owned(), |cell| String::from_utf8_lossy(cell).into_owned())
                });
                ends.push_str(&format!("\n{}", cells.collect::<Vec<_>>().join(" ")));
            }
            Ok::<(), StoreError>(())
        })?;
        Ok(ends)
    }

    fn filled() -> Store {
        let mut store = Store::new().unwrap();
        let mysql = columns(&[("Id", Kind::Integer), ("Info", Kind::Text), ("server", Kind::Text)]);
        let maria = columns(&[("ID", Kind::Integer), ("Progress", Kind::Decimal), ("ID", Kind::Integer)]);
        store.add("db1", &piece(0, &mysql, &[&[Some("9"), None, Some("x")]], false)).unwrap();
        store.add("db1", &piece(1, &mysql, &[&[Some("10"), Some("Select"), Some("y")]], true)).unwrap();
        store.add("db2", &piece(0, &maria, &[&[Some("11"), Some("0.5"), Some("3")]], true)).unwrap();
        store.add("db3", &piece(0, &mysql, &[&[Some("1"), None, None]], false)).unwrap();
        store.add("db3", &Piece::failed(0, 1, Failure::new(Reason::Query, "gone"))).unwrap();
        let tags = [
            BTreeMap::from([("dc".to_owned(), "ams".to_owned()), ("state".to_owned(), "old".to_owned())]),
            BTreeMap::new(),
        ];
        let ends = [Ok(Ended { ms: 1.5, version: "9.7.4".into() }), Err(Failure::new(Reason::Query, "gone"))];
        let ends = [("db1", 0, 0), ("db3", 1, 1)].map(|(server, tag, end): (_, usize, usize)| ServerEnd {
            server,
            tags: &tags[tag],
            end: Some(&ends[end]),
        });
        store.finish(ends.iter().map(|ends| ServerEnd { ..*ends })).unwrap();
        store
    }

    #[test]
    fn answers_of_all_servers_are_one_table_with_the_columns_of_all() {
        let store = filled();
        assert_eq!(
            ask(&store, "SELECT server, Id, info, progress, id_2, server_2 FROM answers ORDER BY id DESC;")
                .unwrap(),
            "server:Text Id:Integer Info:Text Progress:Real ID_2:Integer server_2:Text\n\
             db2 11 NULL 0.5 3 NULL\ndb1 10 Select NULL NULL y\ndb1 9 NULL NULL NULL x"
        );
        let counted = ask(&store, "SELECT count(*) AS n FROM answers WHERE info = 'select'").unwrap();
        assert_eq!(counted, "n:Integer\n1");
    }

    #[test]
    fn servers_have_their_tags_and_how_they_ended() {
        let ends =
            ask(&filled(), "SELECT server, state, reason, ms, version, dc, tag_state FROM servers").unwrap();
        assert!(
            ends.ends_with("\ndb1 answered NULL 1.5 9.7.4 ams old\ndb3 failed query NULL NULL NULL NULL"),
            "{ends}"
        );
    }

    #[test]
    fn a_result_without_rows_has_its_columns() {
        assert_eq!(ask(&filled(), "SELECT Id FROM answers WHERE 0").unwrap(), "Id:Text");
    }

    #[test]
    fn sql_that_is_wrong_is_answered_with_what_could_be_asked() {
        let error = ask(&filled(), "SELECT nothing FROM answers").unwrap_err().to_string();
        assert!(error.contains("nothing") && error.contains("answers (server, Id, Info"), "{error}");
    }
}
