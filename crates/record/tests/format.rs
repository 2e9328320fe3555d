//! `FORMAT.md` is true: its queries run, and it names every table and column that there is.

#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

#[expect(dead_code, reason = "other tests use the rest of it")]
mod story;

use std::path::Path;

use spindoctor_record::{Writer, WriterOptions};

const FORMAT: &str = include_str!("../FORMAT.md");

fn write_recording(path: &Path) {
    let mut writer = Writer::open(path, WriterOptions::default()).expect("a recording");
    let segment = writer.begin_segment(story::began(), story::server());
    for second in 0..story::FIRST_S {
        writer.write_sample(story::sample(segment, second)).expect("it is written");
    }
    writer.write_gap(&story::gap()).expect("it is written");
    let id = writer.new_event();
    writer.write_event(story::event(id)).expect("it is written");
}

#[test]
fn every_example_query_gives_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.spindoctor");
    write_recording(&path);
    let db =
        rusqlite::Connection::open_with_flags(&path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let queries: Vec<&str> =
        FORMAT.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap().trim()).collect();
    assert!(queries.len() >= 10);
    for query in queries {
        let mut statement = db.prepare(query).unwrap_or_else(|error| panic!("{query}\n{error}"));
        let rows = statement.query_map([], |_| Ok(())).unwrap().filter_map(Result::ok).count();
        assert!(rows > 0, "no rows:\n{query}");
    }
}

#[test]
fn it_names_every_table_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.spindoctor");
    write_recording(&path);
    let db = rusqlite::Connection::open(&path).unwrap();
    let mut statement = db
        .prepare(
            "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'",
        )
        .unwrap();
    let columns =
        statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).unwrap();
    for (table, column) in columns.map(Result::unwrap) {
        assert!(FORMAT.contains(&format!("`{table}`:")), "table {table}");
        assert!(FORMAT.contains(&format!("`{column}`")), "column {table}.{column}");
    }
}
