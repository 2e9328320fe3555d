//! Every source of the server against answers that no server gives: columns missing, doubled or in
//! excess, NULL everywhere, numbers out of range, texts of any length and script.

#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use spindoctor_collect::mysql::{Plan, Rows, SOURCES};
use spindoctor_collect::source::Answer;
use spindoctor_model::{ServerSample, ServerVersion};

/// Every name that a source could look for: the words between quotes in the sources' own code.
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut names = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mysql")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let code = std::fs::read_to_string(path).unwrap();
                let words = code.split('"').filter(|word| {
                    (1..60).contains(&word.len())
                        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                });
                names.extend(words.map(str::to_owned));
            }
        }
    }
    names.into_iter().collect()
});

fn cell() -> impl Strategy<Value = Option<String>> {
    let of_note = prop::sample::select(vec![
        "",
        " ",
        "0",
        "1",
        "-1",
        "+7",
        "ON",
        "YES",
        "NULL",
        "NaN",
        "inf",
        "-inf",
        "1e400",
        "-1e400",
        "1e-400",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999",
        "0x10",
        "1.5",
        "00:00:01",
        "0000-00-00 00:00:00",
        "Sleep",
        "Query",
        "SELECT 1",
        "host:port",
        "localhost:99999",
        ":",
        "a.b.c",
        "`",
        "\0",
    ]);
    prop_oneof![
        1 => Just(None),
        4 => of_note.prop_map(|text| Some(text.to_owned())),
        1 => any::<u64>().prop_map(|number| Some(number.to_string())),
        1 => any::<f64>().prop_map(|number| Some(number.to_string())),
        1 => "(?s).{0,40}".prop_map(Some),
        // Longer than the bounds of statements, with characters of 1 to 4 bytes across them.
        1 => "[a-c é語🦀]{1000,1100}".prop_map(Some),
    ]
}

fn rows() -> impl Strategy<Value = Rows> {
    let columns = prop::collection::vec(prop::sample::select(NAMES.as_slice()), 0..40);
    (columns, prop::collection::vec(prop::collection::vec(cell(), 0..45), 0..4))
        .prop_map(|(columns, cells)| Rows::new(columns, cells))
}

/// Names that a source looks for are rarely picked together by chance: these answers have all of them.
fn rows_with_every_name() -> impl Strategy<Value = Rows> {
    prop::collection::vec(prop::collection::vec(cell(), NAMES.len()), 1..3)
        .prop_map(|cells| Rows::new(NAMES.clone(), cells))
}

fn versions() -> impl Strategy<Value = ServerVersion> {
    prop::sample::select(vec![
        ("9.7.4", ""),
        ("8.0.29-21", "Percona Server"),
        ("8.0.11", ""),
        ("5.7.44", ""),
        ("5.1.73", ""),
        ("10.11.19-MariaDB", ""),
        ("5.5.64-MariaDB", ""),
        ("0.0.0", ""),
        ("65535.65535.65535", ""),
    ])
    .prop_map(|(version, comment)| ServerVersion::parse(version, comment).unwrap())
}

/// Lets one source read an answer; the sample must go through JSON and back, which no NaN or infinity does.
fn read(rows: &Rows, number: usize) -> Result<(), TestCaseError> {
    let mut sample = ServerSample::default();
    let source = &SOURCES[number];
    (source.parse)(rows, Answer::default(), &mut sample);
    let text = serde_json::to_string(&sample).unwrap();
    serde_json::from_str::<ServerSample>(&text)
        .map_err(|error| TestCaseError::fail(format!("{}: {error} in {text}", source.name)))?;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_answer_makes_a_source_panic_or_lie(rows in rows(), number in 0..SOURCES.len()) {
        read(&rows, number)?;
    }

    #[test]
    fn no_cells_make_a_source_panic_or_lie(rows in rows_with_every_name(), number in 0..SOURCES.len()) {
        read(&rows, number)?;
    }

    #[test]
    fn every_version_gets_a_plan_from_every_source(version in versions()) {
        for source in SOURCES {
            if let Plan::Ask(statement) = (source.plan)(version, None) {
                prop_assert!(!statement.is_empty(), "{}", source.name);
            }
        }
    }

    #[test]
    fn ragged_rows_give_what_they_have(columns in prop::collection::vec("[a-z]{0,3}", 0..5), cells in prop::collection::vec(cell(), 0..8)) {
        let rows = Rows::new(columns.clone(), vec![cells.clone()]);
        let row = rows.first().unwrap();
        for (at, column) in columns.iter().enumerate() {
            let first = columns.iter().position(|other| other == column).unwrap();
            let expected = cells.get(first).and_then(|cell| cell.as_deref());
            prop_assert_eq!(row.text(&column.to_uppercase()), expected);
            prop_assert_eq!(row.string(column), expected.unwrap_or_default());
            prop_assert_eq!(row.at(at), cells.get(at).and_then(|cell| cell.as_deref()));
            let number = expected.and_then(|text| text.trim().parse::<u16>().ok());
            prop_assert_eq!(row.number::<u16>(column), number);
            prop_assert!(row.number::<f64>(column).is_none_or(f64::is_finite));
        }
        prop_assert_eq!(row.text("no such column"), None);
        prop_assert_eq!(row.at(columns.len().max(cells.len())), None);
    }
}
