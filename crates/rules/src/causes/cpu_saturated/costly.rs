//! Kinds of work that take much CPU for each row: regular expressions, JSON documents, hashes, encryption and compression.

use spindoctor_model::{Evidence, Remedy, Window, number};

use crate::spin_samples::{SpinSamples, names};

/// Share of the CPU samples from which on a kind of work is named. Chosen: from a third on something else may be as large.
const MUCH: f64 = 0.3;

/// A kind of work.
#[derive(Debug)]
struct Kind {
    /// For the headline, in the plural.
    says: &'static str,
    /// The reading that shows it.
    reading: &'static str,
    /// How the names of its functions begin.
    begin: &'static [&'static str],
    why: &'static str,
    /// What to do and why, the best first.
    cures: &'static [(&'static str, &'static str)],
}

const KINDS: &[Kind] = &[
    Kind {
        says: "regular expressions",
        reading: "CPU in regular expressions",
        // PCRE of MariaDB; ICU of MySQL 8.0 (sql/regexp); Henry Spencer's library before both (regex/regexec.c).
        begin: &[
            "pcre_",
            "pcre2_",
            "Regexp_processor_pcre::",
            "Item_func_regex",
            "regexp::",
            "uregex_",
            "my_regexec",
        ],
        why: " A regular expression is computed for each row that the other conditions leave. One with a repetition within a repetition \
              tries each way to divide a text before it says no: thousands of steps for one row.",
        cures: &[
            (
                "A simpler expression: no repetition within a repetition ('^[a-z ]+$' in place of '^([a-z]+ ?)+$'), and LIKE or = where that \
                 is enough",
                "It then takes a step for each character of the text.",
            ),
            (
                "Check it when the row is written: a generated column (STORED) with the expression, or a flag that the application sets; the \
                 statement then compares that",
                "The expression is computed once for each row that is written, and not for each that is read.",
            ),
        ],
    },
    Kind {
        says: "JSON functions",
        reading: "CPU in JSON functions",
        // sql/item_json_func.cc, sql-common/json_dom.cc, json_binary.cc of MySQL; strings/json_lib.c of MariaDB.
        begin: &[
            "Item_func_json",
            "Item_json_func::",
            "Json_wrapper::",
            "Json_dom::",
            "json_binary::",
            "json_scan_",
            "json_find_path",
        ],
        why: " A document is read from its text or its binary form for each row and for each function of the statement.",
        cures: &[(
            "Columns of their own for what the statements take out of the documents: generated columns (STORED), or columns that the \
             application writes",
            "They are computed once for each row that is written, and not for each that is read.",
        )],
    },
    Kind {
        says: "hashes, encryption and compression",
        reading: "CPU in hashes, encryption and compression",
        // sql/item_strfunc.cc.
        begin: &[
            "Item_func_aes_",
            "Item_aes_crypt::",
            "Item_func_sha",
            "Item_func_md5",
            "Item_func_compress::",
            "Item_func_uncompress::",
        ],
        why: " The statement computes them for each row that it reads.",
        cures: &[(
            "Compute them when the row is written, into a column of their own, or in the application",
            "They are then computed once for each row that is written, or on other CPUs than the server's.",
        )],
    },
];

/// One kind of work that takes much of the CPU.
pub(super) struct Costly {
    kind: &'static Kind,
    /// Share of the CPU samples.
    share: f64,
}

impl Costly {
    pub(super) fn from_window(window: &Window) -> Option<Self> {
        let samples = SpinSamples::from_window(window).ok()?;
        let profile = samples.profile();
        let of_kind = |kind: &'static Kind| {
            let is_such = |name: &str| kind.begin.iter().any(|begin| name.starts_with(begin));
            Self { kind, share: samples.share_of(|sample| names(profile, sample).any(is_such)) }
        };
        let most = KINDS.iter().map(of_kind).max_by(|a, b| a.share.total_cmp(&b.share))?;
        (most.share >= MUCH).then_some(most)
    }

    /// The end of a headline.
    pub(super) fn headline(&self) -> String {
        format!("; {} take {} of the CPU", self.kind.says, number::whole_percent(self.share))
    }

    /// The end of why.
    pub(super) fn why(&self) -> &'static str {
        self.kind.why
    }

    pub(super) fn evidence(&self) -> Evidence {
        Evidence::new(self.kind.reading, self.share, "ratio", "CPU samples").expected(format!("< {MUCH}"))
    }

    /// What costs less, and a limit for what costs too much.
    pub(super) fn remedies(&self, window: &Window) -> Vec<Remedy> {
        let cures = self.kind.cures.iter().map(|&(statement, why)| Remedy {
            statement: statement.into(),
            why: why.into(),
            dynamic: true,
            risk: "A change of the application. A STORED column that is added copies the table.".into(),
            undo: "The statement as it was.".into(),
        });
        cures.chain(time_limit(window)).collect()
    }
}

/// A limit for the time of the statement, in the words of the server's version.
fn time_limit(window: &Window) -> Option<Remedy> {
    let version = window.server.version?;
    let statement = match () {
        () if version.mysql_at_least(5, 7, 8) => {
            "The hint /*+ MAX_EXECUTION_TIME(1000) */ in the SELECT, or SET SESSION max_execution_time in its sessions (milliseconds)"
        }
        () if version.mariadb_at_least(10, 1, 2) => {
            "SET STATEMENT max_statement_time = 1 FOR the statement, or SET SESSION max_statement_time in its sessions (seconds)"
        }
        () => return None,
    };
    Some(Remedy {
        statement: statement.into(),
        why: "It bounds what one text can cost until the statement is mended.".into(),
        dynamic: true,
        risk: "A statement that takes longer ends with an error, and its client gets no rows.".into(),
        undo: "The statement as it was; 0 is no limit.".into(),
    })
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Finding;

    use crate::testing::{Build, session};

    const SEARCH: &str = "SELECT COUNT(*) FROM messages WHERE tenant = 7 AND body REGEXP '^([a-z]+ ?)+$'";

    fn found(version: &str, share: f64, frames: &[&str]) -> Finding {
        let sessions = |_| (20..26).map(|id| session(id, "Query", "executing", SEARCH)).collect();
        let build = Build::busy(version).sessions(sessions).running(1000, share, frames);
        match super::super::evaluate(&build.runs(3.8, 8.2).host_cpu(3.8, 0.2).window()) {
            crate::Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn regular_expressions_that_fill_the_cpus_are_named_with_the_statement_and_what_costs_less() {
        let libraries: [(&str, &[&str]); 3] = [
            ("10.5.23-MariaDB", &["pcre2_match_8", "Regexp_processor_pcre::exec"]),
            (
                "9.7.4",
                &["icu_77::RegexMatcher::MatchChunkAt", "uregex_find", "regexp::Regexp_engine::Matches"],
            ),
            ("5.6.14", &["sstep", "my_regexec"]),
        ];
        for (version, frames) in libraries {
            let finding = found(version, 0.99, frames);
            let words =
                "; regular expressions take 99 % of the CPU; seen most: SELECT COUNT(*) FROM messages";
            assert!(finding.headline.contains(words), "{}", finding.headline);
            let said = format!("{finding:?}");
            assert!(!said.contains("an index"), "{said}");
            assert!(said.contains("generated column") && said.contains("who runs it"), "{said}");
            let limits = ["max_statement_time", "MAX_EXECUTION_TIME"].map(|limit| said.contains(limit));
            let expected = match version {
                "10.5.23-MariaDB" => [true, false],
                "9.7.4" => [false, true],
                _ => [false, false],
            };
            assert_eq!(limits, expected, "{version}");
        }
        let little = found("9.7.4", 0.2, &["uregex_find"]);
        assert!(!format!("{little:?}").contains("regular expression"), "{}", little.headline);
    }

    #[test]
    fn json_functions_and_hashes_have_their_own_words() {
        let json = found("9.7.4", 0.5, &["Json_wrapper::seek", "Item_func_json_extract::val_json"]);
        assert!(json.headline.contains("; JSON functions take 50 % of the CPU"), "{}", json.headline);
        let hashes = found("10.11.18-MariaDB", 0.5, &["Item_func_sha2::val_str_ascii"]);
        let words = "; hashes, encryption and compression take 50 % of the CPU";
        assert!(hashes.headline.contains(words), "{}", hashes.headline);
        // The optimizer's trace is written with a class of a similar name.
        let trace = found("10.11.18-MariaDB", 0.5, &["Json_writer_object::Json_writer_object"]);
        assert!(!trace.headline.contains("JSON"), "{}", trace.headline);
    }
}
