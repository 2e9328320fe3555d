//! A JSON object a line: `{"server": "db17:3306", "rows": [[...]], "columns": [...], "ms": 1.9}`, or
//! `{"server": "...", "error": "...", "reason": "connect|auth|timeout|query|interrupted"}`.
//!
//! A long answer comes as several objects with `"part": 0, 1, ...`, of which the last one has `ms`, so that no reader
//! must hold it whole. Numbers are numbers, NULL is null, bytes that are not text are `"0x..."`. The result of `--sql`
//! is an object a row, with the columns' names.

use spindoctor_fleet::wire::answer::{Column, Kind};

use super::part::{Format, Part};
use spindoctor_page::safe::safe_json;

/// An object a line.
pub struct Json;

impl Format for Json {
    fn part(&mut self, part: &Part<'_>, out: &mut Vec<u8>) -> anyhow::Result<()> {
        let Some(server) = part.server else {
            for row in part.rows.iter() {
                out.push(b'{');
                for (at, (column, cell)) in part.columns.iter().zip(row.cells()).enumerate() {
                    if at > 0 {
                        out.extend_from_slice(b", ");
                    }
                    text(out, &column.name);
                    out.extend_from_slice(b": ");
                    value(out, column, cell);
                }
                out.extend_from_slice(b"}\n");
            }
            return Ok(());
        };
        if let Some(Err(failure)) = part.end {
            out.extend_from_slice(b"{\"server\": ");
            text(out, server);
            out.extend_from_slice(b", \"error\": ");
            text(out, &failure.error);
            out.extend_from_slice(format!(", \"reason\": \"{}\"}}\n", failure.reason.name()).as_bytes());
            return Ok(());
        }
        out.extend_from_slice(b"{\"server\": ");
        text(out, server);
        out.extend_from_slice(b", \"rows\": [");
        for (at, row) in part.rows.iter().enumerate() {
            out.extend_from_slice(if at > 0 { b", [" } else { b"[" });
            for (at, (column, cell)) in part.columns.iter().zip(row.cells()).enumerate() {
                if at > 0 {
                    out.extend_from_slice(b", ");
                }
                value(out, column, cell);
            }
            out.push(b']');
        }
        out.extend_from_slice(b"], \"columns\": [");
        for (at, column) in part.columns.iter().enumerate() {
            if at > 0 {
                out.extend_from_slice(b", ");
            }
            text(out, &column.name);
        }
        out.push(b']');
        if part.part > 0 || part.end.is_none() {
            out.extend_from_slice(format!(", \"part\": {}", part.part).as_bytes());
        }
        if let Some(Ok(end)) = part.end {
            out.extend_from_slice(format!(", \"ms\": {:.1}", end.ms).as_bytes());
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }
}

/// Adds a text, with what steers a terminal escaped.
pub fn text(out: &mut Vec<u8>, text: &str) {
    // Most texts have nothing that wants an escape.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return;
    }
    let json = serde_json::Value::from(text).to_string();
    out.extend_from_slice(safe_json(&json).as_bytes());
}

/// Adds a cell.
pub fn value(out: &mut Vec<u8>, column: &Column, cell: Option<&[u8]>) {
    let Some(bytes) = cell else { return out.extend_from_slice(b"null") };
    if column.kind.is_number() && is_number(bytes) {
        return out.extend_from_slice(bytes);
    }
    match std::str::from_utf8(bytes) {
        Ok(valid) => text(out, valid),
        Err(_) if column.kind == Kind::Bytes => {
            out.extend_from_slice(b"\"0x");
            for byte in bytes {
                out.extend_from_slice(format!("{byte:02x}").as_bytes());
            }
            out.push(b'"');
        }
        Err(_) => text(out, &String::from_utf8_lossy(bytes)),
    }
}

/// Whether JSON takes it for a number: no leading zeros, no bare point.
fn is_number(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(bytes);
    if whole == 0 || (whole > 1 && bytes[0] == b'0') {
        return false;
    }
    let mut rest = &bytes[whole..];
    if let Some(behind) = rest.strip_prefix(b".") {
        let places = digits(behind);
        if places == 0 {
            return false;
        }
        rest = &behind[places..];
    }
    if let [b'e' | b'E', behind @ ..] = rest {
        let behind = behind.strip_prefix(b"-").or(behind.strip_prefix(b"+")).unwrap_or(behind);
        let places = digits(behind);
        return places > 0 && places == behind.len();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use spindoctor_fleet::wire::rows::Rows;

    use super::*;

    use crate::fleet::testing::{columns, printed};

    #[test]
    fn every_line_is_an_object_with_an_answer_or_a_reason() {
        let (out, _) = printed(Json);
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 5);
        assert_eq!((&lines[0]["part"], &lines[0]["ms"]), (&0.into(), &serde_json::Value::Null));
        assert_eq!(lines[0]["rows"][0], serde_json::json!([7, "SELECT\t1,\n\"x\\y\""]));
        assert_eq!(
            lines[1],
            serde_json::json!({"server": "db2:3306", "rows": [[12, null], [13, ""]], "columns": ["Id", "Info"], "ms": 1.9})
        );
        assert_eq!((&lines[2]["part"], &lines[2]["ms"]), (&1.into(), &1.9.into()));
        assert_eq!(lines[2]["rows"][0][1], "\u{1b}[2J\u{fffd}");
        assert!(!text.contains('\u{1b}'));
        assert_eq!(lines[3]["rows"][0], serde_json::json!([1, 0.5, "a"]));
        assert_eq!(
            lines[4],
            serde_json::json!({"server": "db4:3306", "error": "no answer within 10 s", "reason": "timeout"})
        );
    }

    #[test]
    fn numbers_are_those_that_json_knows() {
        for yes in ["0", "-1", "12.50", "1e9", "1.5E-3", "18446744073709551615"] {
            assert!(is_number(yes.as_bytes()), "{yes}");
            serde_json::from_str::<serde_json::Value>(yes).unwrap();
        }
        for no in ["", "-", "007", ".5", "1.", "1e", "1e+", "0x1", "1 ", "NaN", "--1"] {
            assert!(!is_number(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn a_result_is_an_object_a_row_and_bytes_are_hexadecimal() {
        let columns = columns(&[("server", Kind::Text), ("x", Kind::Bytes)]);
        let mut rows = Rows::default();
        rows.push([Some(b"db1".as_slice()), Some(b"\xff\x00")]);
        let mut out = Vec::new();
        Json.part(&Part::of_result(&columns, &rows), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "{\"server\": \"db1\", \"x\": \"0xff00\"}\n");
    }
}
