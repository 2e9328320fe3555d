//! A statement as tokens, by the rules of MySQL's and MariaDB's lexers.
//!
//! In: a text and the [`Mode`]. Out: tokens in their order, comments among them, and how the text ended ([`End`]).
//!
//! Where servers, versions or modes would read a text in two ways that differ in what is a literal, the tokens end there with
//! [`End::Ambiguous`]: nothing behind is given out as a name or a keyword.

use crate::mode::{Backslash, DoubleQuotes, Mode};

/// A token and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its text, quotes and introducer included.
    pub text: &'a str,
    /// Where it begins in the text that was taken apart, in bytes.
    pub start: usize,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A word without quotes: a keyword, a function, a name.
    Word,
    /// A name in backquotes, or in double quotes where the mode says that they hold names.
    Name,
    /// A text in quotes: `'..'`, `N'..'`, `_utf8'..'`, `x'1F'`; `".."` unless the mode says that it is a name.
    Text,
    /// A number: `15`, `.5`, `1.5e-3`, `0xFF`, `0b1`.
    Number,
    /// `?` of a prepared statement or of a digest.
    Placeholder,
    /// A comment: `/* .. */`, `-- ..`, `# ..`.
    Comment,
    /// A hint of the optimizer: `/*+ .. */`.
    Hint,
    /// What every server runs although it looks like a comment: `/*!40001` and the `*/` that ends it, as a token each.
    Executable,
    /// What some servers run and others skip, whole: `/*!80013 .. */`, `/*M! .. */`.
    Conditional,
    /// Any other character.
    Sign,
}

/// How a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Behind a whole token.
    Whole,
    /// Within a quoted text, a quoted name or a comment: it was cut there, or is no statement. The part is no token.
    Cut,
    /// What follows is a literal to some servers or modes and is none to others.
    Ambiguous,
}

/// A text, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lexed<'a> {
    /// Its tokens in their order.
    pub tokens: Vec<Token<'a>>,
    /// How it ended.
    pub end: End,
    /// Where the part begins that could not be taken apart; the text's length where there is none.
    pub end_at: usize,
}

impl<'a> Lexed<'a> {
    /// The tokens that are code: without comments and hints, and without what only some servers run.
    pub fn code(&self) -> impl Iterator<Item = &Token<'a>> {
        self.tokens.iter().filter(|token| {
            !matches!(token.kind, Kind::Comment | Kind::Hint | Kind::Executable | Kind::Conditional)
        })
    }
}

impl Token<'_> {
    /// Where it ends, in bytes.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// True for this word, in any case, without quotes.
    pub fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    /// True for one of these words.
    pub fn is_one_of(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }

    /// True for this sign.
    pub fn is_sign(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }

    /// True for a word or a quoted name.
    pub fn is_name(&self) -> bool {
        matches!(self.kind, Kind::Word | Kind::Name)
    }

    /// True for a text or a number.
    pub fn is_literal(&self) -> bool {
        matches!(self.kind, Kind::Text | Kind::Number)
    }

    /// The name that it stands for: without its quotes, doubled ones single.
    pub fn name(&self) -> String {
        let quote = self.text.chars().next().filter(|_| self.kind == Kind::Name);
        match quote {
            Some(quote) if self.text.len() >= 2 => {
                let doubled = format!("{quote}{quote}");
                self.text[1..self.text.len() - 1].replace(&doubled, &quote.to_string())
            }
            _ => self.text.to_owned(),
        }
    }
}

/// The oldest version of which every server that spindoctor supports runs the executable comments: `/*!40001 .. */` is code
/// everywhere, `/*!80013 .. */` is not. (MariaDB skips 50700 to 99999.)
const RUN_BY_ALL: u32 = 50_100;

/// Takes a text apart, up to its first [`crate::CUT`].
pub fn lex(text: &str, mode: Mode) -> Lexed<'_> {
    let text = crate::head(text);
    let mut lexer = Lexer { text, at: 0, mode, tokens: Vec::new(), executables: 0 };
    let end = loop {
        match lexer.next() {
            Step::Done => break End::Whole,
            Step::Token => {}
            Step::Stop(end) => break end,
        }
    };
    // A text that ends within an executable comment is cut, but each of its tokens is whole.
    Lexed { end_at: lexer.at, tokens: lexer.tokens, end }
}

enum Step {
    Token,
    Done,
    Stop(End),
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    mode: Mode,
    tokens: Vec<Token<'a>>,
    /// Executable comments that are open.
    executables: usize,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Step {
        let rest = &self.text[self.at..];
        let Some(first) = rest.chars().next() else { return Step::Done };
        match first {
            c if is_blank(c) => {
                self.at += 1;
                Step::Token
            }
            '\'' | '"' | '`' => self.quoted(first),
            '#' => self.line(),
            '-' if is_dash_comment(rest) => self.line(),
            '/' if rest.starts_with("/*") => self.comment(),
            '*' if self.executables > 0 && rest.starts_with("*/") => {
                self.executables -= 1;
                self.push(Kind::Executable, 2)
            }
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) && !self.is_behind_name() => {
                let length = number_length(rest);
                self.push(Kind::Number, length)
            }
            c if c.is_ascii_digit() => self.digits(),
            '$' if is_dollar_quote(rest) => Step::Stop(End::Ambiguous),
            c if is_word(c) => self.word(),
            '?' => self.push(Kind::Placeholder, 1),
            c => self.push(Kind::Sign, c.len_utf8()),
        }
    }

    fn push(&mut self, kind: Kind, length: usize) -> Step {
        self.tokens.push(Token { kind, text: &self.text[self.at..self.at + length], start: self.at });
        self.at += length;
        Step::Token
    }

    /// True where a name ends right here, so that a `.` parts two names and begins no number.
    fn is_behind_name(&self) -> bool {
        self.tokens.last().is_some_and(|last| {
            last.end() == self.at && (last.is_name() || (last.kind == Kind::Text && last.text.ends_with('"')))
        })
    }

    fn quoted(&mut self, quote: char) -> Step {
        match quoted_length(&self.text[self.at..], quote, self.mode) {
            Quoted::Whole(length) => {
                let kind = match quote {
                    '`' => Kind::Name,
                    '"' if self.mode.double_quotes == DoubleQuotes::Name => Kind::Name,
                    _ => Kind::Text,
                };
                self.push(kind, length)
            }
            Quoted::Cut => Step::Stop(End::Cut),
            Quoted::Ambiguous => Step::Stop(End::Ambiguous),
        }
    }

    fn line(&mut self) -> Step {
        let rest = &self.text[self.at..];
        let length = rest.find('\n').unwrap_or(rest.len());
        self.push(Kind::Comment, length)
    }

    fn comment(&mut self) -> Step {
        let rest = &self.text[self.at..];
        if rest.starts_with("/*!") || rest.starts_with("/*M!") {
            return self.executable(rest);
        }
        let Some(end) = rest[2..].find("*/") else { return Step::Stop(End::Cut) };
        let length = end + 4;
        if !rest.starts_with("/*+") {
            return self.push(Kind::Comment, length);
        }
        // Servers that know hints read quoted names in them; to the others they are comments.
        let is_odd = |quote: char| rest[..length].matches(quote).count() % 2 == 1;
        if is_odd('`') || is_odd('"') {
            return Step::Stop(End::Ambiguous);
        }
        self.push(Kind::Hint, length)
    }

    fn executable(&mut self, rest: &'a str) -> Step {
        let mark = if rest.starts_with("/*M!") { 4 } else { 3 };
        let digits = rest[mark..].bytes().take(6).take_while(u8::is_ascii_digit).count();
        let version: Option<u32> = (digits >= 5).then(|| rest[mark..mark + digits].parse().ok()).flatten();
        if mark == 3 && version.is_none_or(|version| version <= RUN_BY_ALL) {
            self.executables += 1;
            return self.push(Kind::Executable, mark + if version.is_some() { digits } else { 0 });
        }
        let Some(end) = rest[2..].find("*/") else { return Step::Stop(End::Cut) };
        let inside = &rest[mark..end + 2];
        if !ends_for_all(inside, self.mode) {
            return Step::Stop(End::Ambiguous);
        }
        self.push(Kind::Conditional, end + 4)
    }

    /// A number, or a name that begins with digits (`2024_orders`).
    fn digits(&mut self) -> Step {
        let rest = &self.text[self.at..];
        let word = word_length(rest);
        let is_after_dot = self.tokens.last().is_some_and(|last| last.is_sign(".") && last.end() == self.at);
        let run = &rest[..word];
        let is_number = run.bytes().all(|b| b.is_ascii_digit())
            || run.get(..2).is_some_and(|two| matches!(two, "0x" | "0X" | "0b" | "0B"))
            || is_exponential(run);
        if is_number {
            let length = if is_after_dot { word } else { number_length(rest) };
            return self.push(Kind::Number, length);
        }
        self.push(Kind::Word, word)
    }

    fn word(&mut self) -> Step {
        let rest = &self.text[self.at..];
        let length = word_length(rest);
        let word = &rest[..length];
        let Some(quote) = rest[length..].chars().next().filter(|c| matches!(c, '\'' | '"')) else {
            return self.push(Kind::Word, length);
        };
        let is_introducer =
            word.starts_with('_') || (quote == '\'' && matches!(word, "x" | "X" | "b" | "B" | "n" | "N"));
        let is_text = quote == '\'' || self.mode.double_quotes != DoubleQuotes::Name;
        if !is_introducer || !is_text {
            return self.push(Kind::Word, length);
        }
        match quoted_length(&rest[length..], quote, self.mode) {
            Quoted::Whole(quoted) => self.push(Kind::Text, length + quoted),
            Quoted::Cut => Step::Stop(End::Cut),
            Quoted::Ambiguous => Step::Stop(End::Ambiguous),
        }
    }
}

/// What parts tokens; any other blank of Unicode is a letter of a name to the servers.
pub(crate) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

/// Letters of names and keywords. Servers take every character outside ASCII for one.
pub(crate) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii()
}

fn word_length(rest: &str) -> usize {
    rest.find(|c| !is_word(c)).unwrap_or(rest.len())
}

/// MySQL wants a blank or a control character behind the dashes; `5--3` is arithmetic.
fn is_dash_comment(rest: &str) -> bool {
    rest.strip_prefix("--")
        .is_some_and(|rest| rest.chars().next().is_none_or(|c| is_blank(c) || c.is_ascii_control()))
}

/// `$$ .. $$` and `$tag$ .. $tag$` hold a text on MySQL 9 (bodies of routines in other languages), and are names elsewhere.
fn is_dollar_quote(rest: &str) -> bool {
    rest[1..].find(|c| !is_word(c) || c == '$').is_some_and(|end| rest[1 + end..].starts_with('$'))
}

/// `1e5`, `2E`: what follows the letter may be cut.
fn is_exponential(run: &str) -> bool {
    let digits = run.trim_start_matches(|c: char| c.is_ascii_digit());
    digits.strip_prefix(['e', 'E']).is_some_and(|exponent| exponent.bytes().all(|b| b.is_ascii_digit()))
}

/// The length of a number that begins with a digit or with a `.`: `15`, `.5`, `1.5e-3`, `0xFF`.
fn number_length(rest: &str) -> usize {
    let word = word_length(rest);
    if rest.get(..2).is_some_and(|two| matches!(two, "0x" | "0X" | "0b" | "0B")) {
        return word;
    }
    let digits =
        |from: usize| -> usize { from + rest[from..].bytes().take_while(u8::is_ascii_digit).count() };
    let mut at = digits(0);
    if rest[at..].starts_with('.') {
        at = digits(at + 1);
    }
    if rest[at..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[at + 1..].starts_with(['+', '-']));
        let end = digits(at + 1 + sign);
        // Where nothing follows it was cut there.
        if end > at + 1 + sign || end == rest.len() {
            at = end;
        }
    }
    at
}

enum Quoted {
    Whole(usize),
    Cut,
    Ambiguous,
}

/// The length of what stands in quotes, both included.
fn quoted_length(rest: &str, quote: char, mode: Mode) -> Quoted {
    let backslash = match (quote, mode.double_quotes) {
        ('`', _) | ('"', DoubleQuotes::Name) => Backslash::IsText,
        ('"', DoubleQuotes::Unknown) if mode.backslash == Backslash::Escapes => Backslash::Unknown,
        _ => mode.backslash,
    };
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && backslash != Backslash::IsText {
            if chars.next().is_some_and(|(_, next)| next == quote) && backslash == Backslash::Unknown {
                return Quoted::Ambiguous;
            }
        } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return Quoted::Whole(at + 1);
        }
    }
    Quoted::Cut
}

/// True where a comment that some servers run ends at the same place for those that run it and those that skip it: nothing
/// in it opens a text, a name or a comment that would still be open at its end.
fn ends_for_all(inside: &str, mode: Mode) -> bool {
    let mut lexer = Lexer { text: inside, at: 0, mode, tokens: Vec::new(), executables: 0 };
    loop {
        match lexer.next() {
            Step::Done => break,
            Step::Token => {}
            Step::Stop(_) => return false,
        }
    }
    !lexer.tokens.iter().any(|token| token.kind == Kind::Comment || token.text.contains("/*"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, mode: Mode) -> Vec<String> {
        let lexed = lex(text, mode);
        let mut lines: Vec<String> =
            lexed.tokens.iter().map(|token| format!("{:?} {}", token.kind, token.text)).collect();
        if lexed.end != End::Whole {
            lines.push(format!("{:?} {}", lexed.end, &text[lexed.end_at..]));
        }
        lines
    }

    const DEFAULT: Mode = Mode::ALL[0];

    #[test]
    fn every_kind_of_token_is_read() {
        for (text, expected) in [
            ("SELECT a1 FROM `t``2`", vec!["Word SELECT", "Word a1", "Word FROM", "Name `t``2`"]),
            ("'it''s' \"a\"", vec!["Text 'it''s'", "Text \"a\""]),
            (
                "x'1F' N'a' _utf8mb4'b' b'01'",
                vec!["Text x'1F'", "Text N'a'", "Text _utf8mb4'b'", "Text b'01'"],
            ),
            (
                "1 .5 1.5e-3 0xFF 0b1 1. 2e5",
                vec![
                    "Number 1",
                    "Number .5",
                    "Number 1.5e-3",
                    "Number 0xFF",
                    "Number 0b1",
                    "Number 1.",
                    "Number 2e5",
                ],
            ),
            ("db.2024_orders", vec!["Word db", "Sign .", "Word 2024_orders"]),
            ("t.5", vec!["Word t", "Sign .", "Number 5"]),
            ("a=.5", vec!["Word a", "Sign =", "Number .5"]),
            ("5--3", vec!["Number 5", "Sign -", "Sign -", "Number 3"]),
            ("5-- 3\n6 # x\n7", vec!["Number 5", "Comment -- 3", "Number 6", "Comment # x", "Number 7"]),
            ("1 /* it's */ ?", vec!["Number 1", "Comment /* it's */", "Placeholder ?"]),
            ("/*!40001 a */ b", vec!["Executable /*!40001", "Word a", "Executable */", "Word b"]),
            (
                "/*!80013 a */ b /*M!100100 c */",
                vec!["Conditional /*!80013 a */", "Word b", "Conditional /*M!100100 c */"],
            ),
            ("/*+ NO_MRR(`t`) */ x", vec!["Hint /*+ NO_MRR(`t`) */", "Word x"]),
            ("@x @@y", vec!["Sign @", "Word x", "Sign @", "Sign @", "Word y"]),
            ("1e", vec!["Number 1e"]),
            ("1.5e-", vec!["Number 1.5e-"]),
            ("a\u{a0}b", vec!["Word a\u{a0}b"]),
        ] {
            assert_eq!(lines(text, DEFAULT), expected, "{text}");
        }
    }

    #[test]
    fn quotes_end_as_the_mode_says_and_nowhere_where_it_is_not_known() {
        let text = r"'C:\' b 'c'";
        assert_eq!(lines(text, DEFAULT), [r"Text 'C:\' b '", "Word c", "Cut '"]);
        assert_eq!(lines(text, Mode::ALL[2]), [r"Text 'C:\'", "Word b", "Text 'c'"]);
        assert_eq!(lines(text, Mode::UNKNOWN), [format!("Ambiguous {text}")]);
        assert_eq!(lines(r"'a\\' b", Mode::UNKNOWN), [r"Text 'a\\'", "Word b"]);
        assert_eq!(lines(r"'a\\\' b", Mode::UNKNOWN), [r"Ambiguous 'a\\\' b"]);
        assert_eq!(lines("\"a\"", Mode::ALL[1]), ["Name \"a\""]);
        assert_eq!(lines(r#""a\" b"#, Mode::ALL[1]), [r#"Name "a\""#, "Word b"]);
        assert_eq!(lines(r#""a\" b"#, Mode::UNKNOWN), [r#"Ambiguous "a\" b"#]);
        assert_eq!(lines("`a\\` b", Mode::UNKNOWN), ["Name `a\\`", "Word b"]);
    }

    #[test]
    fn what_is_cut_and_what_some_servers_skip_is_no_token() {
        for text in ["'cut", "\"cut", "`cut", "/* cut", "x'1", "_utf8'a", "/*!80013 cut", "/*+ cut"] {
            let lexed = lex(text, Mode::UNKNOWN);
            assert_eq!((lexed.end, lexed.tokens.len()), (End::Cut, 0), "{text}");
        }
        for text in [
            "/*!99999 it's */ SELECT 'secret'",
            "/*M! it's */ SELECT 'secret'",
            "/*!80013 # it's */ SELECT 'secret'",
            "/*!80013 /* it's */ */ SELECT 'secret'",
            "/*+ `a */ SELECT 'secret`'",
            "$$it's$$ secret",
            "$tag$it's$tag$ secret",
        ] {
            let lexed = lex(text, Mode::UNKNOWN);
            assert_eq!((lexed.end, lexed.tokens.len()), (End::Ambiguous, 0), "{text}");
        }
        assert_eq!(lines("a /*[...]*/ b", DEFAULT), ["Word a"]);
        assert_eq!(lines("'a /*[...]*/ b' c", DEFAULT), ["Cut 'a /*[...]*/ b' c"]);
    }
}
