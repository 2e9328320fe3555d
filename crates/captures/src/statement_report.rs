//! What pt-query-digest prints of a slow query log: the statements that took the time, in sentences.
//!
//! ```text
//! # Overall: 1.82k total, 3 unique, 3.03 QPS, 12.20x concurrency ___________
//! # Profile
//! # Rank Query ID                           Response time   Calls R/Call  V/M
//! #    1 0x3A99CC42AEDCCFCD7C2F4E2A1B3C4D5E 5300.1234 72.4%   220 24.0915  9.12 UPDATE stock
//! # Query 1: 0.37 QPS, 8.83x concurrency, ID 0x3A99CC42AEDCCFCD7C2F4E2A1B3C4D5E at byte 0
//! # Exec time     72   5300s      1s     50s     24s     48s      9s     23s
//! # Lock time     99   5200s   900ms     49s     23s     47s      9s     22s
//! ```
//!
//! And what it prints with `--output json`, in one line or in many: numbers are texts there.
//!
//! ```text
//! {"classes": [{"checksum": "66825DDC008FFA89", "distillate": "UPDATE stock", "fingerprint": "update stock set n = ?", "query_count": 220,
//!   "metrics": {"Query_time": {"sum": "5300.123400", ...}, "Lock_time": {...}, "Rows_examined": {...}}}],
//!  "global": {"query_count": 1820, "unique_query_count": 3, "metrics": {"Query_time": {"sum": "7320.1", ...}}}}
//! ```

use serde_json::Value;
use spindoctor_model::number;

use crate::amounts::{amount, amount_in_json, seconds};
use crate::json;

/// Statements that are named.
pub(crate) const NAMED: usize = 5;
/// Bytes of a statement from which on no more lines of it are taken.
const EXAMPLE: usize = 2_000;
/// Statements of which something is read.
const MOST: usize = 100;
/// Characters of a statement's name that are shown: it has no literals.
pub(crate) const SHOWN: usize = 120;
/// From this part of the time on, waits for locks are worth a word, as in a slow query log.
const LOCK_SHARE: f64 = 0.1;
/// Rows read in each call, and for each row that is wanted, from which on an index is likely missing, as in a slow query log.
const MANY_ROWS: f64 = 10_000.0;
const ROWS_FOR_ONE: f64 = 100.0;

/// True for a line that only such a report has, at its beginning or where a paste may begin.
pub(crate) fn is_head(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("# ") else { return false };
    rest.starts_with("Overall: ") && rest.contains(" unique")
        || rest.contains("s user time, ") && rest.contains("s system time, ")
        || rest.starts_with("Rank Query ID ")
        || rest.starts_with("Query ") && rest.contains(" QPS, ") && rest.contains(" ID 0x")
}

/// A statement of a report.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Ranked {
    /// Its place in the report, from 1.
    pub(crate) rank: u64,
    pub(crate) time_s: f64,
    pub(crate) percent: f64,
    pub(crate) calls: u64,
    /// Its shape, without values.
    pub(crate) name: String,
    /// Of its own section: seconds, and those of them that it waited for locks.
    pub(crate) exec_s: f64,
    pub(crate) locked_s: f64,
    /// Rows that it reads each time, and that it sends or changes, where both are known.
    pub(crate) rows: Option<(f64, f64)>,
    /// The statement itself, with its values, as far as it is needed for a name.
    pub(crate) example: String,
}

/// The sentences of a report; None where it says nothing of any statement.
pub(crate) fn read(text: &str) -> Option<Vec<String>> {
    let mut ranked: Vec<Ranked> = Vec::new();
    let mut overall = None;
    // Of all statements: seconds, and those of them that they waited for locks.
    let (mut whole_s, mut whole_locked_s) = (None, None);
    // The section that the lines belong to, by its place in the list.
    let mut section: Option<usize> = None;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix('#').map(str::trim_start) else {
            if let Some(example) = section.map(|at| &mut ranked[at].example).filter(|one| one.len() < EXAMPLE)
            {
                example.push_str(line.trim_end_matches("\\G"));
                example.push(' ');
                // What stands below it is the next section, or somebody's words.
                section = section.filter(|_| !line.ends_with("\\G"));
            }
            continue;
        };
        if let Some(summary) = rest.strip_prefix("Overall: ") {
            overall = Some(summary.trim_end_matches(['_', ' ']).to_owned());
        } else if let Some((rank, _)) = rest.strip_prefix("Query ").and_then(|rest| rest.split_once(':')) {
            let rank: Option<u64> = rank.parse().ok();
            section = rank.and_then(|rank| ranked.iter().position(|one| one.rank == rank));
            if let (None, Some(rank)) = (section, rank)
                && ranked.len() < MOST
            {
                // A section that was pasted without the profile above it.
                ranked.push(Ranked { rank, ..Ranked::default() });
                section = Some(ranked.len() - 1);
            }
        } else if let Some(one) = profiled(rest).filter(|_| ranked.len() < MOST) {
            ranked.push(one);
        } else if let Some(at) = section {
            let one = &mut ranked[at];
            match (
                rest.strip_prefix("Exec time "),
                rest.strip_prefix("Lock time "),
                rest.strip_prefix("Count "),
            ) {
                (Some(cells), ..) => one.exec_s = total(cells).unwrap_or(0.0),
                (_, Some(cells), _) => one.locked_s = total(cells).unwrap_or(0.0),
                (.., Some(cells)) if one.calls == 0 => {
                    one.calls = cells.split_whitespace().nth(1).and_then(thousands).unwrap_or(0.0) as u64;
                }
                _ => {}
            }
            let (read, wanted) = one.rows.unwrap_or_default();
            if let Some(read) = rest.strip_prefix("Rows examine ").and_then(mean) {
                one.rows = Some((read, wanted));
            }
            let result = ["Rows sent ", "Rows affecte "].iter().find_map(|name| rest.strip_prefix(name));
            if let Some(more) = result.and_then(mean) {
                one.rows = Some((read, wanted + more));
            }
        } else if overall.is_some() && ranked.is_empty() {
            let first = |cells: &str| seconds(cells.split_whitespace().next()?, 1.0);
            whole_s = whole_s.or_else(|| rest.strip_prefix("Exec time ").and_then(first));
            whole_locked_s = whole_locked_s.or_else(|| rest.strip_prefix("Lock time ").and_then(first));
        }
    }
    for one in &mut ranked {
        if one.time_s == 0.0 {
            one.time_s = one.exec_s;
        }
        if one.name.is_empty() {
            let shape = spindoctor_sql::digest(one.example.trim());
            one.name = shape.chars().take(SHOWN).collect();
        }
        if one.name.is_empty() {
            one.name = format!("statement {}", one.rank);
        }
    }
    if ranked.is_empty() {
        return Some(vec![of_all(&overall?, whole_s?, whole_locked_s.unwrap_or(0.0))]);
    }
    let mut says: Vec<String> = overall.map(|overall| format!("statements: {overall}")).into_iter().collect();
    says.extend(ranked.iter().take(NAMED).map(Ranked::sentence));
    Some(says)
}

/// What the part of a report says that is of all statements: who pasted it left out the rest.
fn of_all(overall: &str, whole_s: f64, locked_s: f64) -> String {
    let locked = match whole_s > 0.0 && locked_s >= whole_s * LOCK_SHARE {
        true => format!(", {} of it waits for locks", number::percent(locked_s / whole_s)),
        false => String::new(),
    };
    format!("statements: {overall}; they took {}{locked}", number::duration(whole_s))
}

/// The sentences of a report in JSON, or of one of its statements as people file them one by one; None for another text.
pub(crate) fn from_json(text: &str) -> Option<Vec<String>> {
    const OF_REPORT: [&str; 3] = ["\"classes\"", "\"global\"", "\"query_count\""];
    const OF_STATEMENT: [&str; 3] = ["\"fingerprint\"", "\"metrics\"", "\"query_count\""];
    let has = |names: [&str; 3]| names.iter().all(|name| text.contains(name));
    if !(has(OF_REPORT) || has(OF_STATEMENT)) || !json::has_few_values(text) {
        return None;
    }
    let report = only_object(text)?;
    let (classes, global) = match (report.get("classes").and_then(Value::as_array), report.get("global")) {
        (Some(classes), Some(global)) => (classes.as_slice(), global),
        _ if report.get("fingerprint").is_some() => (std::slice::from_ref(&report), &report),
        _ => return None,
    };
    let count = |of: &Value, name: &str| amount_in_json(of.get(name)?);
    let total = count(global, "query_count")?;
    let mut overall = format!("statements: {} total", number::whole(total));
    for (name, what) in [("unique_query_count", "unique"), ("queries_per_second", "QPS")] {
        let shown = count(global, name).map(|count| format!(", {} {what}", number::plain(count)));
        overall.push_str(&shown.unwrap_or_default());
    }
    let whole_s = metric(global, "Query_time", "sum").unwrap_or(0.0);
    let mut ranked: Vec<Ranked> = classes.iter().take(MOST).map(|class| of_class(class, whole_s)).collect();
    ranked.sort_by(|one, other| other.time_s.total_cmp(&one.time_s));
    let mut says = vec![overall];
    says.extend(ranked.iter().take(NAMED).map(Ranked::sentence));
    Some(says)
}

/// The object in JSON that a text has, where it is the most of the text: people write a title above it, and a page a fence around it.
fn only_object(text: &str) -> Option<Value> {
    let is_above = |line: &&str| !line.trim_start().starts_with('{');
    let above: usize = text.split_inclusive('\n').take_while(is_above).map(str::len).sum();
    let mut values = serde_json::Deserializer::from_str(&text[above..]).into_iter::<Value>();
    let object = values.next()?.ok()?;
    (values.byte_offset() * 2 > text.len()).then_some(object)
}

/// `of["metrics"]["Query_time"]["sum"]`
fn metric(of: &Value, name: &str, what: &str) -> Option<f64> {
    amount_in_json(of.get("metrics")?.get(name)?.get(what)?)
}

/// A statement of a report in JSON, of which all took so many seconds.
fn of_class(class: &Value, whole_s: f64) -> Ranked {
    let text = |name: &str| class.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let time_s = metric(class, "Query_time", "sum").unwrap_or(0.0);
    let name = match text("distillate").or_else(|| text("fingerprint")) {
        // Where it was asked to group by something else the fingerprint is that.
        Some(name) => spindoctor_sql::sentence_without_quotes(name).chars().take(SHOWN).collect(),
        None => "a statement that was left out".to_owned(),
    };
    let wanted = |name: &str| metric(class, name, "avg").unwrap_or(0.0);
    let read = metric(class, "Rows_examined", "avg");
    Ranked {
        time_s,
        percent: if whole_s > 0.0 { time_s / whole_s * 100.0 } else { 0.0 },
        calls: class.get("query_count").and_then(amount_in_json).unwrap_or(0.0) as u64,
        name,
        exec_s: time_s,
        locked_s: metric(class, "Lock_time", "sum").unwrap_or(0.0),
        rows: read.map(|read| (read, wanted("Rows_sent") + wanted("Rows_affected"))),
        ..Ranked::default()
    }
}

/// `1 0x3A99CC42AEDCCFCD 5300.1234 72.4%   220 24.0915  9.12 UPDATE stock`; `MISC` stands before the last.
fn profiled(line: &str) -> Option<Ranked> {
    let mut words = line.split_whitespace();
    let rank = words.next()?.parse().ok()?;
    words.next().filter(|id| id.starts_with("0x"))?;
    let time_s = amount(words.next()?)?;
    let percent = amount(words.next()?.strip_suffix('%')?)?;
    let calls = words.next()?.parse().ok()?;
    // The mean, and how far the times are apart.
    words.nth(1)?;
    let name: Vec<&str> = words.collect();
    let name = name.join(" ").chars().take(SHOWN).collect();
    Some(Ranked { rank, time_s, percent, calls, name, ..Ranked::default() })
}

/// `9.83M`: from a thousand on a number has a letter.
fn thousands(cell: &str) -> Option<f64> {
    let digits = cell.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &cell[digits.len()..] {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => return None,
    };
    Some(amount(digits)? * factor)
}

/// `99   9.83M   3.50k   3.50k   3.50k ...`: a share, the sum, the least, the most, and the mean.
fn mean(cells: &str) -> Option<f64> {
    thousands(cells.split_whitespace().nth(4)?)
}

/// `99   5200s   900ms     49s ...`: a share, and the sum.
fn total(cells: &str) -> Option<f64> {
    seconds(cells.split_whitespace().nth(1)?, 1.0)
}

impl Ranked {
    /// `72 % of the time: UPDATE stock, 220 times, 24.1 s each; it waited for locks in 98 % of that`
    pub(crate) fn sentence(&self) -> String {
        let share = match self.percent > 0.0 {
            true => format!("{} of the time", number::percent(self.percent / 100.0)),
            false => number::duration(self.time_s),
        };
        let each = match self.calls {
            0 => String::new(),
            calls => format!(
                ", {}, {} each",
                number::counted(calls, "time", "times"),
                number::duration(self.time_s / calls as f64)
            ),
        };
        let locked = self.locked_s / self.exec_s.max(self.locked_s);
        let locks = match locked.is_finite() && locked >= LOCK_SHARE {
            true => format!("; it waited for locks in {} of that", number::percent(locked)),
            false => String::new(),
        };
        let is_much =
            |(read, wanted): &(f64, f64)| *read >= MANY_ROWS && *read >= ROWS_FOR_ONE * wanted.max(1.0);
        let rows = self.rows.filter(is_much).map_or_else(String::new, |(read, wanted)| {
            format!(
                "; it reads {} rows each time for {wanted:.0}: EXPLAIN says whether an index is missing",
                number::whole(read.round())
            )
        });
        format!("{share}: {}{each}{locks}{rows}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "
# 210ms user time, 30ms system time, 26.91M rss, 228.41M vsz
# Overall: 1.82k total, 3 unique, 3.03 QPS, 12.20x concurrency ___________
# Attribute          total     min     max     avg     95%  stddev  median
# Exec time          7320s      1s     50s      4s     23s      7s      1s

# Profile
# Rank Query ID                           Response time   Calls R/Call  V/M
# ==== ================================== =============== ===== ======= =====
#    1 0x3A99CC42AEDCCFCD7C2F4E2A1B3C4D5E 5280.0000 72.4%   220 24.0000  9.12 UPDATE stock
#    2 0x8D589AFA4DFAEEED85FFF5AA78E5FF6A 1500.0000 20.6%   100 15.0000  1.01 SELECT orders lines
# MISC 0xMISC                              519.5445  7.1%  1500  0.3464   0.0 <1 ITEMS>

# Query 1: 0.37 QPS, 8.83x concurrency, ID 0x3A99CC42AEDCCFCD7C2F4E2A1B3C4D5E at byte 0
# Attribute    pct   total     min     max     avg     95%  stddev  median
# Count         12     220
# Exec time     72   5280s      1s     50s     24s     48s      9s     23s
# Lock time     99   5200s   900ms     49s     23s     47s      9s     22s
UPDATE stock SET n = n - 1 WHERE id = 7\\G
# Query 2: 0.37 QPS, 8.83x concurrency, ID 0x8D589AFA4DFAEEED85FFF5AA78E5FF6A at byte 0
# Exec time     20   1500s      1s     50s     24s     48s      9s     23s
# Lock time      0    13ms    10us    90us    40us    47us     9us    22us
";

    #[test]
    fn a_section_alone_has_the_shape_of_its_statement_and_the_rows_that_it_reads() {
        let section = "# Query 1: 0.07 QPS, 0.01x concurrency, ID 0x3E4A5C07C7F37D41 at byte 12345\n\
                       # Attribute    pct   total     min     max     avg     95%  stddev  median\n\
                       # Count         98   2.88k\n# Exec time     99     92s    22ms   110ms    32ms    44ms     6ms    30ms\n\
                       # Rows sent      0      10       1       1       1       1       0       1\n\
                       # Rows examine  99  98.30M  35.00k  35.00k  35.00k  33.50k       0  33.50k\n\
                       # Query_time distribution\n#  10ms  ####\n# Tables\n#    SHOW CREATE TABLE `shop`.`stock`\\G\n\
                       # EXPLAIN /*!50100 PARTITIONS*/\nSELECT n FROM stock\nWHERE code = 'hidden7'\\G\n";
        assert_eq!(
            read(section).unwrap(),
            [
                "92 s: SELECT n FROM stock WHERE code = ?, 2880 times, 31.9 ms each; it reads 35,000 rows each time for 1: EXPLAIN says \
              whether an index is missing"
            ]
        );
        let cut = section.split("SELECT").next().unwrap();
        assert!(read(cut).unwrap()[0].starts_with("92 s: statement 1, "), "{:?}", read(cut));
    }

    #[test]
    fn the_statements_of_the_profile_are_named_with_their_waits_for_locks() {
        assert_eq!(
            read(REPORT).unwrap(),
            [
                "statements: 1.82k total, 3 unique, 3.03 QPS, 12.20x concurrency",
                "72 % of the time: UPDATE stock, 220 times, 24 s each; it waited for locks in 98 % of that",
                "21 % of the time: SELECT orders lines, 100 times, 15 s each",
            ]
        );
        assert!(!format!("{:?}", read(REPORT)).contains("id = 7"), "no literal is shown");
    }

    #[test]
    fn a_section_alone_says_what_it_has() {
        let (_, section) = REPORT.split_once("# Query 1").unwrap();
        let says = read(&format!("# Query 1{section}")).unwrap();
        assert_eq!(
            says[0],
            "88 min 0 s: UPDATE stock SET n = n - ? WHERE id = ?, 220 times, 24 s each; it waited for locks in 98 % of that"
        );
        assert_eq!(read("# Overall: nothing\n# Query: what?\n"), None);
    }

    #[test]
    fn the_part_of_all_statements_alone_says_what_they_took() {
        let (overall, _) = REPORT.split_once("\n\n# Profile").unwrap();
        let says = "statements: 1.82k total, 3 unique, 3.03 QPS, 12.20x concurrency; they took 2 h 2 min";
        assert_eq!(read(overall).unwrap(), [says]);
        let locked = format!(
            "{overall}\n# Lock time          3660s    10us     12s    63us    84us    13ms    28us\n"
        );
        assert_eq!(read(&locked).unwrap(), [format!("{says}, 50 % of it waits for locks")]);
        assert_eq!(crate::recognise("x", &locked)[0].kind, crate::part::Kind::StatementReport);
    }

    const JSON: &str = r#"
{
   "classes" : [
      {
         "attribute" : "fingerprint",
         "checksum" : "66825DDC008FFA89",
         "distillate" : "UPDATE stock",
         "example" : { "query" : "UPDATE stock SET n = 1 WHERE id = 4711", "Query_time" : "50.0" },
         "fingerprint" : "update stock set n = ? where id = ?",
         "metrics" : {
            "Lock_time" : { "avg" : "23.000000", "sum" : "5200.000000" },
            "Query_time" : { "avg" : "24.000000", "pct_95" : "48.000000", "sum" : "5280.000000" },
            "Rows_examined" : { "avg" : "98123", "sum" : "9812300" },
            "Rows_sent" : { "avg" : "0", "sum" : "0" },
            "user" : { "value" : "app" }
         },
         "query_count" : 220,
         "tables" : [ { "create" : "SHOW CREATE TABLE `stock`\\G" } ]
      },
      {
         "attribute" : "fingerprint",
         "checksum" : "8D589AFA4DFAEEED",
         "distillate" : null,
         "fingerprint" : "select a from orders where b = ?",
         "metrics" : { "Query_time" : { "sum" : "1500.000000" } },
         "query_count" : 100
      }
   ],
   "global" : {
      "files" : [ { "name" : "slow.log", "size" : 3841 } ],
      "metrics" : { "Query_time" : { "sum" : "7292.000000" } },
      "query_count" : 1820,
      "unique_query_count" : 3
   }
}
"#;

    #[test]
    fn one_statement_of_a_report_in_json_is_read_below_its_title() {
        let text = "SELECT stock is slow\n\n```json\n{\n  \"attribute\": \"fingerprint\",\n  \"distillate\": \"SELECT stock\",\n  \
                    \"fingerprint\": \"select count(id) from stock\",\n  \"metrics\": {\"Query_time\": {\"avg\": \"4\", \"sum\": \"44\"}, \
                    \"Rows_examined\": {\"avg\": \"1948199\"}, \"Rows_sent\": {\"avg\": \"1\"}},\n  \"query_count\": 11\n}\n```\n";
        let says = from_json(text).expect("a statement");
        assert_eq!(says[0], "statements: 11 total");
        assert!(says[1].contains("SELECT stock, 11 times, 4 s each"), "{says:?}");
        // What is not the most of a text is no reason to read nothing else of it.
        assert_eq!(from_json(&format!("{}{text}", "a line\n".repeat(100))), None);
    }

    #[test]
    fn a_report_in_json_says_what_the_one_in_text_does() {
        let one_line: String = JSON.lines().map(str::trim).collect();
        for text in [JSON.to_owned(), format!("{one_line}\n")] {
            let parts = crate::recognise("digest.json", &text);
            let kinds: Vec<_> = parts.iter().map(|part| part.kind).collect();
            assert_eq!(kinds, [crate::Kind::StatementReport], "{text}: {parts:?}");
            assert_eq!(
                parts[0].says,
                [
                    "statements: 1820 total, 3 unique",
                    "72 % of the time: UPDATE stock, 220 times, 24 s each; it waited for locks in 98 % of that; it reads 98,123 rows \
                     each time for 0: EXPLAIN says whether an index is missing",
                    "21 % of the time: select a from orders where b = ?, 100 times, 15 s each",
                ]
            );
            assert!(!format!("{parts:?}").contains("4711"), "no literal is shown");
        }
        for text in [
            "{}",
            "{\"classes\": 7, \"global\": {\"query_count\": 1}}",
            "{\"classes\": [], \"global\": {\"query_count\": ",
        ] {
            assert_eq!(from_json(text), None, "{text}");
        }
    }
}
