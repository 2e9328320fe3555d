//! Whether a statement may be explained and run again, its tables, its lists of values.
//!
//! In: a text. Out: a [`Select`], or the reason why the statement is left alone. Pure. It is not a parser of SQL: it
//! knows the plain SELECT of one or several tables, and refuses all other text. So it lets through no text that could
//! change, lock, wait, or call stored code, and none with a subquery, which EXPLAIN may run.

use crate::CUT;
use crate::mode::Mode;
use crate::tokens::{End, Kind, Token, lex};

/// A plain SELECT.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Select {
    /// The text without what ends it.
    pub text: String,
    /// Its tables in their order.
    pub tables: Vec<Table>,
    /// Its lists of values.
    pub lists: Vec<List>,
    /// True where it has DISTINCT.
    pub is_distinct: bool,
    /// True where it has GROUP BY.
    pub is_grouped: bool,
    /// True where it has ORDER BY.
    pub is_ordered: bool,
    /// True where it has LIMIT.
    pub has_limit: bool,
    /// True where it searches texts (MATCH .. AGAINST).
    pub has_full_text: bool,
}

/// A table of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Its database, where it is named.
    pub schema: Option<String>,
    /// Its name.
    pub name: String,
    /// What the statement calls it instead.
    pub alias: Option<String>,
    /// Where in the text a hint for its indexes may stand.
    hint_at: usize,
    /// True where one stands there.
    pub has_hint: bool,
}

impl Table {
    /// As EXPLAIN and the trace call it.
    pub fn called(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.name)
    }
}

/// A list of values: `k IN (1, 2, 3)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// The column, as it is written; `(...)` of a list of rows.
    pub column: String,
    /// How many.
    pub values: usize,
}

/// What stands before a bracket and is no function: a column's name may be none of these without backquotes.
const BEFORE_BRACKET: &[&str] = &[
    "select", "distinct", "where", "and", "or", "not", "xor", "in", "on", "using", "by", "having", "between",
    "like", "is", "index", "key", "join", "from", "case", "when", "then", "else", "div", "mod", "limit",
    "offset", "all", "interval", "against",
];

/// Functions that only compute, and are the same within a transaction. Whatever is not here may be a stored function.
const HARMLESS: &[&str] = &[
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "group_concat",
    "if",
    "ifnull",
    "nullif",
    "coalesce",
    "least",
    "greatest",
    "abs",
    "floor",
    "ceil",
    "ceiling",
    "round",
    "truncate",
    "sign",
    "pow",
    "power",
    "sqrt",
    "concat",
    "concat_ws",
    "lower",
    "upper",
    "lcase",
    "ucase",
    "trim",
    "ltrim",
    "rtrim",
    "length",
    "char_length",
    "character_length",
    "left",
    "right",
    "substring",
    "substr",
    "mid",
    "locate",
    "instr",
    "replace",
    "reverse",
    "lpad",
    "rpad",
    "hex",
    "unhex",
    "md5",
    "sha1",
    "sha2",
    "crc32",
    "cast",
    "convert",
    "binary",
    "date",
    "time",
    "timestamp",
    "year",
    "month",
    "day",
    "dayofmonth",
    "dayofweek",
    "dayofyear",
    "weekday",
    "week",
    "quarter",
    "hour",
    "minute",
    "second",
    "date_format",
    "date_add",
    "date_sub",
    "adddate",
    "subdate",
    "datediff",
    "timediff",
    "timestampdiff",
    "unix_timestamp",
    "from_unixtime",
    "to_days",
    "from_days",
    "str_to_date",
    "last_day",
    "now",
    "curdate",
    "current_date",
    "current_timestamp",
    "field",
    "find_in_set",
    "inet_aton",
    "inet_ntoa",
    "json_extract",
    "json_unquote",
    "match",
    // Types in CAST and CONVERT.
    "char",
    "decimal",
];

/// Words with which a statement is left alone, and why.
const REFUSED: &[(&str, &str)] = &[
    ("into", "it writes somewhere (INTO)"),
    ("update", "it locks rows (FOR UPDATE)"),
    ("share", "it locks rows (FOR SHARE, LOCK IN SHARE MODE)"),
    ("lock", "it locks rows"),
    ("union", "it is a UNION"),
    ("intersect", "it is an INTERSECT"),
    ("except", "it is an EXCEPT"),
    ("procedure", "it calls a procedure"),
    ("sql_calc_found_rows", "it counts rows that it does not send (SQL_CALC_FOUND_ROWS)"),
    ("straight_join", "its joins are in a fixed order (STRAIGHT_JOIN)"),
    ("partition", "it names partitions"),
    ("window", "it has a window"),
    ("over", "it has a window"),
    ("rand", "it depends on chance"),
    ("nextval", "it takes a number of a sequence"),
];

/// Words that end the list of tables.
const AFTER_TABLES: &[&str] = &["where", "group", "having", "order", "limit", "for"];
/// Words that cannot be an alias.
const NO_ALIAS: &[&str] = &[
    "join", "inner", "cross", "left", "right", "outer", "natural", "on", "using", "use", "force", "ignore",
    "as", "set",
];

impl Select {
    /// A statement that may be explained, and run again by who was asked to.
    ///
    /// # Errors
    /// Why it is left alone, in a clause.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim().trim_end_matches(|c: char| c == ';' || c.is_whitespace());
        let tokens = tokens(text)?;
        let Some(first) = tokens.first() else { return Err("it has no text".to_owned()) };
        if !first.is("select") {
            return Err("it is not a plain SELECT".to_owned());
        }
        refuse(&tokens)?;
        let words = |pair: [&str; 2]| tokens.windows(2).any(|two| two[0].is(pair[0]) && two[1].is(pair[1]));
        let select = Self {
            text: text.to_owned(),
            tables: tables(&tokens)?,
            lists: lists(&tokens),
            is_distinct: tokens.iter().any(|token| token.is("distinct") || token.is("distinctrow")),
            is_grouped: words(["group", "by"]),
            is_ordered: words(["order", "by"]),
            has_limit: tokens.iter().any(|token| token.is("limit")),
            has_full_text: tokens.iter().any(|token| token.is("against")),
        };
        Ok(select)
    }

    /// The statement with a hint for the indexes of one of its tables: `FORCE INDEX (k_1)`.
    pub fn with_hint(&self, table: &Table, hint: &str) -> String {
        let (before, after) = self.text.split_at(table.hint_at);
        format!("{before} {hint}{after}")
    }
}

/// Refuses what is not known to be harmless.
fn refuse(tokens: &[Token<'_>]) -> Result<(), String> {
    for (at, token) in tokens.iter().enumerate() {
        let after_dot = at > 0 && tokens[at - 1].is_sign(".");
        if at > 0 && token.is("select") {
            return Err("it has a subquery".to_owned());
        }
        let is_column = after_dot && !token.is("nextval");
        if let Some((_, why)) = REFUSED.iter().find(|(word, _)| !is_column && token.is(word)) {
            return Err((*why).to_owned());
        }
        if token.is("next") && tokens.get(at + 1).is_some_and(|next| next.is("value")) {
            return Err("it takes a number of a sequence".to_owned());
        }
        match token.text {
            "?" if token.kind == Kind::Placeholder => {
                return Err("its values are not in its text (a prepared statement)".to_owned());
            }
            "@" if token.kind == Kind::Sign => return Err("it uses variables".to_owned()),
            ";" if token.kind == Kind::Sign => return Err("it is more than one statement".to_owned()),
            _ => {}
        }
        let called = tokens.get(at + 1).is_some_and(|next| next.is_sign("("));
        // A text in double quotes is a name to a server in ANSI mode.
        if called && !matches!(token.kind, Kind::Sign | Kind::Placeholder) {
            let is_known = token.is_one_of(BEFORE_BRACKET) || token.is_one_of(HARMLESS);
            if after_dot || !is_known {
                return Err(format!("it calls {}(), which is not known to be harmless", token.name()));
            }
        }
    }
    Ok(())
}

/// The tables behind FROM.
fn tables(tokens: &[Token<'_>]) -> Result<Vec<Table>, String> {
    let mut depth = 0usize;
    let mut from = None;
    for (at, token) in tokens.iter().enumerate() {
        depth = deeper(depth, token);
        // Not that of TRIM(x FROM y).
        if depth == 0 && token.is("from") {
            from = Some(at + 1);
            break;
        }
    }
    let Some(mut at) = from else { return Err("it reads no table".to_owned()) };
    let mut tables = Vec::new();
    loop {
        let Some((table, next)) = table(tokens, at) else {
            return Err("its list of tables is not understood".to_owned());
        };
        tables.push(table);
        // To the next table: behind a comma or a JOIN, past the conditions of the one before.
        let (mut depth, mut found) = (0usize, None);
        for (at, token) in tokens.iter().enumerate().skip(next) {
            depth = deeper(depth, token);
            if depth > 0 {
                continue;
            }
            if token.is_one_of(AFTER_TABLES) {
                break;
            }
            if token.is_sign(",") || token.is("join") {
                found = Some(at + 1);
                break;
            }
        }
        match found {
            Some(next) => at = next,
            None => return Ok(tables),
        }
    }
}

/// The table that stands there, and where its name, alias and hints end.
fn table(tokens: &[Token<'_>], at: usize) -> Option<(Table, usize)> {
    let first = tokens.get(at).filter(|token| token.is_name())?;
    let (schema, named, mut at) = match tokens.get(at + 1) {
        Some(dot) if dot.is_sign(".") => {
            let named = tokens.get(at + 2).filter(|token| token.is_name())?;
            (Some(first.name()), named, at + 3)
        }
        _ => (None, first, at + 1),
    };
    let mut end = named.end();
    let mut alias = None;
    if tokens.get(at).is_some_and(|token| token.is("as")) {
        at += 1;
    }
    if let Some(token) = tokens.get(at)
        && token.is_name()
        && !token.is_one_of(AFTER_TABLES)
        && !token.is_one_of(NO_ALIAS)
    {
        alias = Some(token.name());
        end = token.end();
        at += 1;
    }
    let has_hint = tokens.get(at).is_some_and(|token| token.is_one_of(&["use", "force", "ignore"]));
    Some((Table { schema, name: named.name(), alias, hint_at: end, has_hint }, at))
}

/// `IN (...)` with values alone; those of NOT IN are no equalities.
fn lists(tokens: &[Token<'_>]) -> Vec<List> {
    let mut lists = Vec::new();
    for at in 1..tokens.len() {
        if !tokens[at].is("in") || !tokens.get(at + 1).is_some_and(|token| token.is_sign("(")) {
            continue;
        }
        let before = &tokens[at - 1];
        if before.is("not") {
            continue;
        }
        let (mut depth, mut values) = (0usize, 1usize);
        for token in &tokens[at + 1..] {
            depth = deeper(depth, token);
            if depth == 0 {
                break;
            }
            values += usize::from(depth == 1 && token.is_sign(","));
        }
        let column = if before.is_name() { before.name() } else { "(...)".to_owned() };
        lists.push(List { column, values });
    }
    lists
}

fn deeper(depth: usize, token: &Token<'_>) -> usize {
    match (token.kind, token.text) {
        (Kind::Sign, "(") => depth + 1,
        (Kind::Sign, ")") => depth.saturating_sub(1),
        _ => depth,
    }
}

/// The tokens of a text, without comments.
fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    if text.contains(CUT) {
        return Err("the middle of its text was left out".to_owned());
    }
    let lexed = lex(text, Mode::UNKNOWN);
    for token in &lexed.tokens {
        match token.kind {
            Kind::Executable | Kind::Conditional => {
                return Err("it has a comment that some servers run".to_owned());
            }
            Kind::Hint if unsettles(token.text) => {
                return Err("a hint of it sets limits or variables".to_owned());
            }
            Kind::Comment | Kind::Hint => {}
            _ if token.text.contains('\u{fffd}') => {
                return Err("its text has bytes that are not UTF-8".to_owned());
            }
            _ => {}
        }
    }
    match lexed.end {
        End::Whole => Ok(lexed.code().copied().collect()),
        End::Cut if text[lexed.end_at..].starts_with("/*") => Err("its text is cut in a comment".to_owned()),
        End::Cut => Err("its text is cut in a quoted text".to_owned()),
        End::Ambiguous => {
            Err("a text or a comment of it ends where servers do not agree (a quote behind a backslash)"
                .to_owned())
        }
    }
}

/// True for a hint of the optimizer that would undo the session's limits.
fn unsettles(hint: &str) -> bool {
    let hint = hint.to_ascii_uppercase();
    ["MAX_EXECUTION_TIME", "SET_VAR", "RESOURCE_GROUP"].iter().any(|name| hint.contains(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PIECES: &[&str] =
        &["SELECT ", "FROM ", "`", "'", "(", ")", ",", "IN ", "t.", "ß", "/*", "--", " ", "1", "\\", "@"];

    fn select(text: &str) -> Select {
        Select::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn the_tables_of_a_statement_are_found_with_their_aliases() {
        let line = |text: &str| -> Vec<String> {
            let called = |table: &Table| {
                format!("{}.{} {}", table.schema.as_deref().unwrap_or("-"), table.name, table.called())
            };
            select(text).tables.iter().map(called).collect()
        };
        assert_eq!(line("SELECT a FROM t WHERE k IN (1)"), ["-.t t"]);
        assert_eq!(line("select * from `shop`.`or``ders` AS o limit 5"), ["shop.or`ders o"]);
        assert_eq!(line("SELECT 1 FROM a x, b y WHERE x.id = y.id"), ["-.a x", "-.b y"]);
        assert_eq!(
            line(
                "SELECT 1 FROM a LEFT JOIN d.b USING (id) INNER JOIN c z ON (z.x = a.x AND z.y IN (1, 2)) ORDER BY 1"
            ),
            ["-.a a", "d.b b", "-.c z"]
        );
        assert_eq!(line("SELECT TRIM(BOTH 'x' FROM c) FROM t FORCE INDEX (k)"), ["-.t t"]);
        assert!(select("SELECT 1 FROM t AS u FORCE INDEX (k) WHERE k = 1").tables[0].has_hint);
        assert!(!select("SELECT 1 FROM t").tables[0].has_hint);
    }

    #[test]
    fn a_hint_stands_behind_the_table_and_its_alias() {
        let hinted = |text: &str| {
            let select = select(text);
            select.with_hint(&select.tables[0], "FORCE INDEX (`k`)")
        };
        assert_eq!(hinted("SELECT 1 FROM t WHERE k = 1;"), "SELECT 1 FROM t FORCE INDEX (`k`) WHERE k = 1");
        assert_eq!(
            hinted("SELECT 1 FROM d.t AS u, v -- all\n"),
            "SELECT 1 FROM d.t AS u FORCE INDEX (`k`), v -- all"
        );
        assert_eq!(hinted("SELECT 'FROM x' FROM t"), "SELECT 'FROM x' FROM t FORCE INDEX (`k`)");
    }

    #[test]
    fn lists_are_counted_and_those_of_not_in_are_none() {
        let line = |text: &str| -> Vec<(String, usize)> {
            select(text).lists.into_iter().map(|list| (list.column, list.values)).collect()
        };
        let list = |column: &str, values| vec![(column.to_owned(), values)];
        assert_eq!(line("SELECT 1 FROM t WHERE t.k IN (1, -2, 'a,b', ABS(3))"), list("k", 4));
        assert_eq!(line("SELECT 1 FROM t WHERE `k` in(1)"), list("k", 1));
        assert_eq!(line("SELECT 1 FROM t WHERE (a, b) IN ((1, 2), (3, 4), (5, 6))"), list("(...)", 3));
        assert_eq!(line("SELECT 1 FROM t WHERE k NOT IN (1, 2)"), vec![]);
    }

    #[test]
    fn what_decides_over_force_index_is_seen() {
        let plain = select("SELECT k FROM t WHERE k IN (1, 2) LIMIT 5");
        assert!(!plain.is_distinct && !plain.is_grouped && !plain.is_ordered && !plain.has_full_text);
        assert!(plain.has_limit);
        assert!(select("SELECT DISTINCT k FROM t").is_distinct);
        assert!(select("SELECT k, COUNT(*) FROM t GROUP BY k").is_grouped);
        assert!(select("SELECT `order` FROM t ORDER BY k").is_ordered);
        assert!(!select("SELECT `order`, 'group by' FROM t").is_ordered);
        assert!(select("SELECT 1 FROM t WHERE MATCH (c) AGAINST ('x')").has_full_text);
    }

    #[test]
    fn what_changes_locks_waits_or_is_not_known_is_refused() {
        for (text, reason) in [
            ("", "no text"),
            ("UPDATE t SET a = 1", "not a plain SELECT"),
            ("DELETE FROM t", "not a plain SELECT"),
            ("(SELECT 1 FROM t)", "not a plain SELECT"),
            ("WITH x AS (SELECT 1) SELECT * FROM x", "not a plain SELECT"),
            ("SELECT 1", "reads no table"),
            ("SELECT a FROM t FOR UPDATE", "FOR UPDATE"),
            ("SELECT a FROM t FOR SHARE", "locks rows"),
            ("SELECT a FROM t LOCK IN SHARE MODE", "locks rows"),
            ("SELECT a FROM t INTO OUTFILE '/tmp/x'", "INTO"),
            ("SELECT a INTO @x FROM t", "INTO"),
            ("SELECT a FROM t WHERE b IN (SELECT c FROM u)", "subquery"),
            ("SELECT a FROM (SELECT 1) AS d", "subquery"),
            ("SELECT a FROM t UNION ALL TABLE u", "UNION"),
            ("SELECT SLEEP(5) FROM t", "SLEEP()"),
            ("SELECT sleep /* */ (5) FROM t", "sleep()"),
            ("SELECT GET_LOCK('x', 1) FROM t", "GET_LOCK()"),
            ("SELECT BENCHMARK(1e9, 1) FROM t", "BENCHMARK()"),
            ("SELECT shop.price(a) FROM t", "price()"),
            ("SELECT `count`(a) FROM t", "count()"),
            ("SELECT d.count(a) FROM t", "count()"),
            ("SELECT mine(a) FROM t", "mine()"),
            ("SELECT LAST_INSERT_ID(5) FROM t", "LAST_INSERT_ID()"),
            ("SELECT NEXTVAL(s) FROM t", "sequence"),
            ("SELECT s.nextval FROM t", "sequence"),
            ("SELECT \"mine\"(a) FROM t", "mine"),
            (r"SELECT a FROM t WHERE b = 'x\' OR mine(a) OR '", "backslash"),
            ("SELECT /*+ SET_VAR(max_execution_time = 0) */ a FROM t", "limits"),
            ("SELECT @x := @x + 1 FROM t", "variables"),
            ("SELECT a FROM t WHERE b = @@autocommit", "variables"),
            ("SELECT a FROM t WHERE b = ?", "prepared"),
            ("SELECT a FROM t; DROP TABLE t", "more than one"),
            ("SELECT a /*! INTO OUTFILE 'x' */ FROM t", "some servers run"),
            ("SELECT a /*M!100100 INTO OUTFILE 'x' */ FROM t", "some servers run"),
            ("SELECT a FROM t WHERE b = 'cut in the mid", "cut in a quoted"),
            ("SELECT a FROM t /* cut", "cut in a comment"),
            ("SELECT a FROM t /*[...]*/ WHERE b = 1", "middle"),
            ("SELECT a FROM t WHERE b = '\u{fffd}'", "UTF-8"),
            ("SELECT a FROM t PARTITION (p0)", "partitions"),
            ("SELECT a FROM JSON_TABLE('[]', '$' COLUMNS (a INT)) AS j", "JSON_TABLE()"),
            ("SELECT SUM(a) OVER () FROM t", "window"),
            ("SELECT NEXT VALUE FOR s FROM t", "sequence"),
        ] {
            let why = Select::parse(text).map(|select| format!("{select:?}")).unwrap_err();
            assert!(why.contains(reason), "{text}: {why}");
        }
    }

    #[test]
    fn hints_and_comments_of_the_optimizer_are_kept() {
        let select = select("SELECT /*+ NO_MRR(t) */ a /* route=cart */ FROM t WHERE k IN (1, 2) # all");
        assert!(select.text.contains("NO_MRR") && select.lists[0].values == 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn no_text_makes_it_panic(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..12)) {
            if let Ok(select) = Select::parse(&pieces.concat()) {
                for table in &select.tables {
                    select.with_hint(table, "USE INDEX ()");
                }
            }
        }
    }
}
