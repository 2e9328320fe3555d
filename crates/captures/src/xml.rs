//! Result sets in XML as the tables that a client prints: `mysql -X`, and what other clients export.
//!
//! ```text
//! <resultset statement="show processlist" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
//!   <row>
//!     <field name="Id">7</field>
//!     <field name="db" xsi:nil="true" />
//!   </row>
//! </resultset>
//! ```
//!
//! The names of characters stay as they are: a page has them, too, and `plain` writes the characters for both.

use std::borrow::Cow;

use crate::rows::{LONGEST_CELL, MOST_COLUMNS, is_name};

/// How the elements begin that are a row: of the server's own client, HeidiSQL and DataGrip, DBeaver.
const ROWS: [&str; 5] = ["<row>", "<ROW>", "<row ", "<record>", "<DATA_RECORD>"];
/// How those begin that stand around rows and say nothing.
const AROUND: [&str; 14] = [
    "<?xml",
    "<resultset",
    "</resultset",
    "<RESULTSET",
    "</RESULTSET",
    "<table_data",
    "</table_data",
    "<database",
    "</database",
    "<mysqldump",
    "</mysqldump",
    "<data>",
    "</data>",
    "<DATA>",
];
/// Bytes of a tag: that of a result set has its statement.
const LONGEST_TAG: usize = 64 << 10;

/// A cell: its column, and its text where it is not NULL.
type Cell<'t> = (&'t str, Option<&'t str>);

/// The text with its rows in XML as tables with tabs between the cells.
pub(crate) fn as_tables(text: &str) -> Cow<'_, str> {
    let first = next_row(text).and_then(|at| row(&text[at..]));
    if !first
        .is_some_and(|(cells, _)| cells.len() > 1 && cells.iter().all(|(name, _)| is_name_of_column(name)))
    {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut head = Vec::new();
    let mut rest = text;
    while let Some(at) = next_row(rest) {
        let between = &rest[..at];
        if !between.trim().is_empty() {
            without_tags(between, &mut plain);
            head.clear();
        }
        let Some((cells, behind)) = row(&rest[at..]) else {
            rest = &rest[at..];
            break;
        };
        write(&cells, &mut head, &mut plain);
        rest = behind;
    }
    without_tags(rest, &mut plain);
    Cow::Owned(plain)
}

fn is_name_of_column(name: &str) -> bool {
    // `COUNT(*)` is a name, too.
    is_name(name) || !name.is_empty() && name.len() <= 64 && !name.contains(['<', '>', '\n', '\t'])
}

/// Where the next row begins.
fn next_row(text: &str) -> Option<usize> {
    text.match_indices('<').map(|(at, _)| at).find(|at| ROWS.iter().any(|row| text[*at..].starts_with(row)))
}

/// The cells of the row with which a text begins, and what stands behind it. A text may have been cut within its last row.
fn row(text: &str) -> Option<(Vec<Cell<'_>>, &str)> {
    let (tag, inside) = text.split_once('>')?;
    let name = tag.strip_prefix('<')?.split(' ').next()?;
    let (mut content, behind) = inside.split_once(&format!("</{name}>")).unwrap_or((inside, ""));
    let mut cells: Vec<Cell<'_>> = Vec::new();
    while let Some(at) = content.find('<').filter(|_| cells.len() < MOST_COLUMNS) {
        let Some((cell, rest)) = cell(&content[at..]) else { break };
        cells.push(cell);
        content = rest;
    }
    Some((cells, behind))
}

/// `<field name="Id">7</field>`, `<column name="Id">7</column>`, `<Id>7</Id>`, and with nothing in it `<field name="db" xsi:nil="true" />`
fn cell(text: &str) -> Option<(Cell<'_>, &str)> {
    let inside = text.strip_prefix('<')?;
    let end = inside.find('>').filter(|end| *end <= LONGEST_TAG)?;
    let (tag, behind) = (&inside[..end], &inside[end + 1..]);
    let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
    let name = tag.split([' ', '\t', '\n']).next().filter(|name| is_name(name))?;
    let attribute = |wanted: &str| {
        tag.split_once(wanted).and_then(|(_, rest)| rest.split_once('"')).map(|(value, _)| value)
    };
    let column = attribute(" name=\"").unwrap_or(name);
    let is_null = attribute("nil=\"") == Some("true");
    if is_empty {
        return Some(((column, None), behind));
    }
    let (value, behind) = behind.split_once(&format!("</{name}>"))?;
    let value = value.strip_prefix("<![CDATA[").and_then(|value| value.strip_suffix("]]>")).unwrap_or(value);
    Some(((column, Some(value).filter(|_| !is_null)), behind))
}

/// A row with tabs between its cells, below its head where the row above has another. InnoDB's status is written as it is.
fn write<'t>(cells: &[Cell<'t>], head: &mut Vec<&'t str>, plain: &mut String) {
    let status = cells.iter().find_map(|(name, value)| {
        (*value).filter(|value| name.eq_ignore_ascii_case("status") && value.trim().contains('\n'))
    });
    if let Some(status) = status {
        head.clear();
        plain.push_str(&format!("\n{}\n", status.trim()));
        return;
    }
    if cells.len() < 2 {
        return;
    }
    let names: Vec<&str> = cells.iter().map(|(name, _)| *name).collect();
    if *head != names {
        plain.push_str(&names.join("\t"));
        plain.push('\n');
        *head = names;
    }
    let text = |(_, value): &Cell<'_>| match value {
        Some(value) => {
            let value = &value[..value.floor_char_boundary(LONGEST_CELL)];
            value.split(['\t', '\n']).map(str::trim).collect::<Vec<_>>().join(" ")
        }
        None => "NULL".to_owned(),
    };
    plain.push_str(&cells.iter().map(text).collect::<Vec<_>>().join("\t"));
    plain.push('\n');
}

/// What stands between two result sets, without the tags of both.
fn without_tags(between: &str, plain: &mut String) {
    let mut rest = between;
    while let Some(at) = rest.find('<') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find('>').filter(|end| *end <= LONGEST_TAG);
        match end.filter(|_| AROUND.iter().any(|tag| rest.starts_with(tag))) {
            Some(end) => rest = &rest[end + 1..],
            None => {
                plain.push('<');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    plain.push('\n');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::part::Kind;
    use crate::threads::testing::sessions;
    use crate::{recognise, window};

    /// A list in which a cell with a text begins and ends with what `tags` makes of its name, and one with NULL is what `null` makes of it.
    fn list(tags: impl Fn(&str) -> [String; 2], null: impl Fn(&str) -> String) -> String {
        let cell = |(name, text): (&str, Option<&str>)| {
            let [begin, end] = tags(name);
            let cell = text.map_or_else(|| null(name), |text| format!("{begin}{text}{end}"));
            format!("\t{cell}\n")
        };
        let row = |texts: [Option<&str>; 7]| {
            let names = ["Id", "User", "db", "Command", "Time", "State", "Info"];
            format!("  <row>\n{}  </row>\n\n", names.into_iter().zip(texts).map(cell).collect::<String>())
        };
        let statement = "SELECT a\nFROM b WHERE c &lt; 5 &amp;&amp; d = &quot;x&quot;";
        let wait = "Waiting for table metadata lock";
        format!(
            "<?xml version=\"1.0\"?>\n\n<resultset statement=\"show full processlist\n\" \
             xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\n{}{}</resultset>\n",
            row([Some("71"), Some("app"), None, Some("Query"), Some("341"), Some(wait), Some(statement)]),
            row([Some("72"), Some("app"), Some("shop"), Some("Sleep"), Some("900"), Some(""), None])
        )
    }

    /// As the server's own client writes it.
    fn of_client() -> String {
        list(
            |name| [format!("<field name=\"{name}\">"), "</field>".to_owned()],
            |name| format!("<field name=\"{name}\" xsi:nil=\"true\" />"),
        )
    }

    #[test]
    fn a_list_in_xml_is_the_list_that_the_client_prints_in_a_frame() {
        let wanted = [
            (
                Some(71),
                "Waiting for table metadata lock".to_owned(),
                "SELECT a FROM b WHERE c < 5 && d = \"x\"".to_owned(),
            ),
            (Some(72), String::new(), String::new()),
        ];
        let elements = list(|name| [format!("<{name}>"), format!("</{name}>")], |name| format!("<{name}/>"));
        let client = of_client();
        for text in [
            client.clone(),
            format!("Hello,\n\n{client}\nAny idea?\n"),
            elements,
            client.replace("field", "column"),
        ] {
            assert_eq!(sessions(&text), wanted, "{text}\n{}", as_tables(&text));
        }
        // Cut within its last row.
        let cut = &client[..client.rfind("<field name").unwrap()];
        assert_eq!(sessions(cut).len(), 2, "{}", as_tables(cut));
    }

    #[test]
    fn a_status_in_xml_and_names_with_values_are_what_they_are() {
        let field = |name: &str, value: &str| format!("\t<field name=\"{name}\">{value}</field>\n");
        let row = |fields: &[String]| format!("  <row>\n{}  </row>\n", fields.concat());
        let set = |rows: &str| format!("<resultset statement=\"x\">\n{rows}</resultset>\n");
        let status = "\n=====================================\n2024-05-02 08:01:40 0x7f INNODB MONITOR OUTPUT\n\
                      =====================================\n------------\nTRANSACTIONS\n------------\nTrx id counter 5\n\
                      History list length 7\n----------------------------\nEND OF INNODB MONITOR OUTPUT\n============================\n";
        let status = row(&[field("Type", "InnoDB"), field("Name", ""), field("Status", status)]);
        let values: String = [("Questions", "512"), ("Threads_running", "41"), ("Uptime", "9000")]
            .iter()
            .map(|(name, value)| row(&[field("Variable_name", name), field("Value", value)]))
            .collect();
        let parts = recognise("x", &format!("<?xml version=\"1.0\"?>\n{}{}", set(&status), set(&values)));
        let kinds: Vec<Kind> = parts.iter().map(|part| part.kind).collect();
        assert_eq!(kinds, [Kind::InnodbStatus, Kind::GlobalStatus], "{parts:#?}");
        let window = window(&parts);
        assert_eq!(window.status("Threads_running"), Some(41.0));
        let read = window.latest(|sample| &sample.server.innodb_status).unwrap();
        assert_eq!(read.transactions.history_list_length, Some(7));
    }

    #[test]
    fn what_has_no_rows_stays_as_it_is() {
        for text in [
            "#1  <signal handler called>\n#2  0x01 in a () <row\n",
            "<html><table><tr><td>7</td></tr></table></html>\n",
            "<row>\n",
            "<row>one</row>\n",
            "<row><b>one</b></row>\n",
        ] {
            assert_eq!(as_tables(text), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn no_text_makes_it_fail(text in "(<row>|</row>|<field name=\"Id\">|</field>|<Id>|</Id>|xsi:nil=\"true\"|/>|<|>|\"|é|\n|<resultset |[a-z ]{0,4}){0,40}") {
            let _read = recognise("x", &text);
        }
    }
}
