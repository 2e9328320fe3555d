//! `XA RECOVER`: transactions that XA prepared and nobody has ended.

use std::fmt::Write;

use spindoctor_model::mysql::PreparedXa;
use spindoctor_model::{ServerSample, Unavailable};

use super::innodb_trx;
use super::rows::Row;
use super::source::{Plan, Source, note_if_cut, open_transactions};
use crate::pace::Pace;
use crate::source::Cadence;

/// Prepared transactions kept at most: a coordinator that leaves more has lost its log.
const LIMIT: usize = 100;

/// The source. Where every transaction has a connection, nothing is asked.
///
/// Cost: the server copies the names of all prepared transactions from its own list, under that list's lock; no lock of
/// InnoDB's.
pub const SOURCE: Source = Source {
    name: "XA RECOVER",
    help: "names of prepared XA transactions, where a transaction has no connection",
    cost: "nothing where every transaction has a connection, else a copy of the server's list",
    grant: |version| match version.mysql_at_least(8, 0, 0) {
        true => "GRANT XA_RECOVER_ADMIN ON *.*",
        false => "",
    },
    install: "",
    cadence: Cadence::EverySample,
    pace: Pace::with(innodb_trx::SOURCE.name),
    plan: |version, _| {
        Plan::AskAbout(if version.mysql_at_least(5, 7, 0) {
            |sample| asked(sample, "XA RECOVER CONVERT XID")
        } else if version.mariadb_at_least(10, 3, 3) {
            |sample| asked(sample, "XA RECOVER FORMAT='SQL'")
        } else {
            |sample| asked(sample, "XA RECOVER")
        })
    },
    parse: |rows, answer, sample| {
        note_if_cut("XA RECOVER", rows, LIMIT, sample);
        sample.prepared_xa = answer.reading(rows.iter().take(LIMIT).filter_map(prepared).collect());
    },
    reading: ServerSample::field("prepared_xa"),
};

/// The statement, where a transaction has no connection and is not being rolled back.
fn asked(sample: &ServerSample, sql: &str) -> Result<Option<String>, Unavailable> {
    let is_left = open_transactions(sample)?
        .iter()
        .any(|transaction| transaction.connection_id.is_none() && transaction.state != "ROLLING BACK");
    Ok(is_left.then(|| sql.to_owned()))
}

/// ```text
/// 1  10  8  order-4711branch-2                      (plain)
/// 1  10  8  0x6F726465722D343731316272616E63682D32  (CONVERT XID, MySQL 9.7.4)
/// 1  10  8  'order-4711','branch-2'                 (FORMAT='SQL', MariaDB 10.11.18)
/// 7  3   7  X'00ff27',X'69742773205c5c',7           (the same, of other bytes)
/// ```
///
/// MariaDB does not escape a quote in it, so it is read by its length.
fn prepared(row: Row<'_>) -> Option<PreparedXa> {
    let (global, branch): (usize, usize) = (row.number("gtrid_length")?, row.number("bqual_length")?);
    if global > PreparedXa::MOST_BYTES || branch > PreparedXa::MOST_BYTES {
        return None;
    }
    let data = row.text("data")?;
    let hex = if data.len() == global + branch {
        hexadecimal(data)
    } else if let Some(hex) = data.strip_prefix("0x") {
        hex.to_owned()
    } else if data.starts_with("X'") {
        // The parts between the quotes; the format's number follows them.
        data.split('\'').skip(1).step_by(2).take(2).collect()
    } else {
        let quoted = data.strip_prefix('\'')?;
        let rest = quoted.get(global..)?;
        let branch_text = match rest {
            "'" if branch == 0 => "",
            _ => rest
                .strip_prefix("','")?
                .get(..branch)
                .filter(|_| rest.get(3 + branch..).is_some_and(closes))?,
        };
        format!("{}{}", hexadecimal(quoted.get(..global)?), hexadecimal(branch_text))
    };
    let is_whole = hex.len() == 2 * (global + branch) && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_whole.then(|| PreparedXa {
        format_id: row.number("formatID").unwrap_or(1),
        global_hex: hex[..2 * global].to_owned(),
        branch_hex: hex[2 * global..].to_owned(),
    })
}

/// What follows a name in quotes: the closing quote, and where it is not 1 the format's number.
fn closes(text: &str) -> bool {
    text.strip_prefix('\'').is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
}

fn hexadecimal(text: &str) -> String {
    let mut hex = String::with_capacity(2 * text.len());
    for byte in text.bytes() {
        // Writing into a String cannot fail.
        let _ok = write!(hex, "{byte:02X}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use spindoctor_model::ServerVersion;
    use spindoctor_model::mysql::Transaction;

    use super::super::fixture;
    use super::super::rows::Rows;
    use super::*;
    use crate::source::Answer;

    fn literals(rows: &Rows) -> Vec<Option<String>> {
        rows.iter().map(|row| prepared(row)?.literal()).collect()
    }

    #[test]
    fn reads_what_every_server_says_of_a_client_that_is_gone() {
        let all = fixture::answers("xa-prepared-client-gone", "XA RECOVER");
        assert!(all.len() >= 8, "only {} servers", all.len());
        for (server, rows) in all {
            assert_eq!(literals(&rows), [Some("'transfer-17','',1".to_owned())], "{server}");
        }
    }

    #[test]
    fn a_name_is_the_same_in_every_form_and_no_name_leaves_its_quotes() {
        let rows = fixture::tabbed(
            "formatID\tgtrid_length\tbqual_length\tdata\n\
             1\t10\t8\torder-4711branch-2\n\
             1\t10\t8\t0x6F726465722D343731316272616E63682D32\n\
             1\t10\t8\t'order-4711','branch-2'\n\
             7\t3\t7\tX'00ff27',X'69742773205c5c',7\n\
             1\t4\t0\t'it's'\n\
             1\t2\t0\t'a'); DROP TABLE t; --'\n\
             1\t3\t0\t0x00zz00\n\
             1\t900\t0\tx\n\
             1\t3\t0\t'\u{00e4}\u{00e4}'\n",
        );
        let order = Some("'order-4711','branch-2',1".to_owned());
        let odd = Some("X'00ff27',X'69742773205c5c',7".to_owned());
        let quote = Some("X'69742773','',1".to_owned());
        assert_eq!(
            literals(&rows),
            [order.clone(), order.clone(), order, odd, quote, None, None, None, None]
        );
    }

    #[test]
    fn is_asked_only_where_a_transaction_has_no_connection_and_is_not_rolled_back() {
        let statement = |version: &str, connection_id, state: &str| {
            let transaction =
                Transaction { connection_id, state: state.to_owned(), ..Transaction::default() };
            let sample = ServerSample {
                transactions: Answer::default().reading(vec![transaction]),
                ..ServerSample::default()
            };
            match (SOURCE.plan)(ServerVersion::parse(version, "").unwrap(), None) {
                Plan::AskAbout(asked) => asked(&sample).unwrap(),
                _ => None,
            }
        };
        assert_eq!(statement("9.7.4", Some(7), "RUNNING"), None);
        assert_eq!(statement("9.7.4", None, "ROLLING BACK"), None);
        assert_eq!(statement("9.7.4", None, "RUNNING").as_deref(), Some("XA RECOVER CONVERT XID"));
        assert_eq!(statement("5.6.51", None, "RUNNING").as_deref(), Some("XA RECOVER"));
        let mariadb = statement("10.11.19-MariaDB", None, "RUNNING");
        assert_eq!(mariadb.as_deref(), Some("XA RECOVER FORMAT='SQL'"));
    }
}
