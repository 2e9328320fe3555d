//! Values as Python writes them: strings, numbers, lists, tuples, objects, and the calls that make them (`Decimal('3')`).

/// How deep values stand in each other: rows of objects in a list have less.
const DEEPEST: usize = 6;
/// Values of one list that are read.
const MOST_VALUES: usize = 1_000_000;

/// The text of a value, none of `None`.
pub(super) type Cell = Option<String>;

/// Values with names, in the order in which they stand.
pub(super) type Pairs = Vec<(String, Value)>;

/// A value: one that is no list, a list or a tuple, an object with names.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    One(Cell),
    List(Vec<Value>),
    Named(Pairs),
}

/// Reads values as Python writes them.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    values: usize,
}

impl<'a> Reader<'a> {
    /// A reader of what begins there, bytes from the text's beginning.
    pub(super) fn new(text: &'a str, at: usize) -> Self {
        Self { text, at, values: 0 }
    }

    /// How far it has read, bytes from the text's beginning.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next value; None where there is none, or more of it than is read.
    pub(super) fn read(&mut self) -> Option<Value> {
        self.value(0)
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_next = self.rest().starts_with(sign);
        self.at += if is_next { sign.len() } else { 0 };
        is_next
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.values += 1;
        if depth > DEEPEST || self.values > MOST_VALUES {
            return None;
        }
        self.blanks();
        if self.takes("[") {
            return self.list(']', depth).map(|(values, _)| Value::List(values));
        }
        if self.takes("(") {
            let (mut values, is_tuple) = self.list(')', depth)?;
            // A value in parentheses, as `('a' 'b')` of pprint, is no tuple.
            return if is_tuple || values.len() != 1 { Some(Value::List(values)) } else { values.pop() };
        }
        if self.takes("{") {
            return self.named(depth);
        }
        self.string().map(|text| Value::One(Some(text))).or_else(|| self.word(depth))
    }

    /// The values up to the mark that closes them, and whether a comma stands behind one. Of a list of rows that was cut, or of
    /// which a row cannot be read, the rows that are whole.
    fn list(&mut self, close: char, depth: usize) -> Option<(Vec<Value>, bool)> {
        /// Rows of one list that cannot be read.
        const MOST_LOST: usize = 1_000;
        let mut values = Vec::new();
        let mut has_comma = false;
        let mut lost = 0;
        loop {
            self.blanks();
            if self.takes(close.encode_utf8(&mut [0; 4])) {
                return Some((values, has_comma));
            }
            let is_value =
                self.takes("...") || self.value(depth + 1).map(|value| values.push(value)).is_some();
            self.blanks();
            if is_value && self.takes(",") {
                has_comma = true;
                continue;
            }
            if is_value && self.rest().starts_with(close) {
                continue;
            }
            let is_rows = depth == 0 && values.first().is_some_and(|first| !matches!(first, Value::One(_)));
            if !is_rows {
                return None;
            }
            lost += 1;
            match self.next_row().filter(|_| lost <= MOST_LOST && self.values <= MOST_VALUES) {
                Some(next) => self.at = next,
                None => return Some((values, true)),
            }
        }
    }

    /// Where the next row begins in this line.
    fn next_row(&self) -> Option<usize> {
        /// A row that cannot be read is shorter, bytes. By judgement.
        const FARTHEST: usize = 1 << 14;
        let mut near = self.rest().as_bytes().windows(3).take(FARTHEST).take_while(|bytes| bytes[0] != b'\n');
        let place = near.position(|bytes| matches!(bytes, b", (" | b", {" | b", ["))?;
        Some(self.at + place + 2)
    }

    /// What stands behind `{`.
    fn named(&mut self, depth: usize) -> Option<Value> {
        let mut pairs = Vec::new();
        loop {
            self.blanks();
            if self.takes("}") {
                return Some(Value::Named(pairs));
            }
            let name = self.string()?;
            self.blanks();
            let is_pair = self.takes(":");
            pairs.push((name, is_pair.then(|| self.value(depth + 1))??));
            self.blanks();
            if pairs.len() > MOST_VALUES || !self.takes(",") && !self.rest().starts_with('}') {
                return None;
            }
        }
    }

    /// A string, or several that stand behind each other.
    fn string(&mut self) -> Option<String> {
        let mut whole: Option<String> = None;
        loop {
            let before = self.at;
            self.blanks();
            match self.one_string() {
                Some(text) => whole.get_or_insert_default().push_str(&text),
                None => {
                    self.at = before;
                    return whole;
                }
            }
        }
    }

    /// `'a'`, `b"a"`, `'''a'''`
    fn one_string(&mut self) -> Option<String> {
        /// What stands before a string's quote says how it is written.
        const LETTERS: usize = 2;
        let letters = self.rest().bytes().take_while(|byte| b"bBuUrR".contains(byte)).count();
        let is_raw = self.rest()[..letters].contains(['r', 'R']);
        let quoted = &self.rest()[letters..];
        let quotes = ["'''", "\"\"\"", "'", "\""];
        let quote = *quotes.iter().find(|quote| letters <= LETTERS && quoted.starts_with(**quote))?;
        let begin = self.at + letters + quote.len();
        let mut text = String::new();
        let mut rest = self.text[begin..].chars();
        loop {
            let here = rest.as_str();
            if here.starts_with(quote) {
                self.at = self.text.len() - here.len() + quote.len();
                return Some(text);
            }
            match rest.next()? {
                '\n' if quote.len() == 1 => {
                    // A string in one quote ends in its line.
                    return None;
                }
                '\\' if !is_raw => escaped(&mut rest, &mut text)?,
                letter => text.push(letter),
            }
        }
    }

    /// A number, `None`, `True`, `Decimal('3')`, `datetime.datetime(2024, 5, 1, 10, 0)`, `Row(Id=12, User='app')`
    fn word(&mut self, depth: usize) -> Option<Value> {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c);
        let length = self.rest().len() - self.rest().trim_start_matches(is_letter).len();
        let word = self.rest()[..length].to_owned();
        let first = word.chars().next()?;
        self.at += length;
        if first.is_ascii_digit() || "+-.".contains(first) {
            let number = word.trim_end_matches('L').replace('_', "");
            return number.parse::<f64>().is_ok().then_some(Value::One(Some(number)));
        }
        match word.as_str() {
            "None" | "null" | "nan" | "NaN" => return Some(Value::One(None)),
            "True" | "true" => return Some(Value::One(Some("1".to_owned()))),
            "False" | "false" => return Some(Value::One(Some("0".to_owned()))),
            _ => {}
        }
        if !self.takes("(") {
            // `datetime.timezone.utc`
            return word.contains('.').then_some(Value::One(Some(word)));
        }
        let (values, named) = self.arguments(depth + 1)?;
        made(word.rsplit('.').next().unwrap_or_default(), values, named)
    }

    /// What stands in the parentheses of a call: values, and those that have a name.
    fn arguments(&mut self, depth: usize) -> Option<(Vec<Value>, Pairs)> {
        let (mut values, mut named) = (Vec::new(), Vec::new());
        loop {
            self.blanks();
            if self.takes(")") {
                return Some((values, named));
            }
            let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let length = self.rest().len() - self.rest().trim_start_matches(is_letter).len();
            let name = self.rest()[..length].to_owned();
            let behind = &self.rest()[length..];
            if length > 0 && behind.starts_with('=') {
                self.at += length + 1;
                named.push((name, self.value(depth)?));
            } else {
                values.push(self.value(depth)?);
            }
            self.blanks();
            if !self.takes(",") && !self.rest().starts_with(')') {
                return None;
            }
        }
    }
}

/// What stands behind a `\` of a string.
fn escaped(rest: &mut std::str::Chars<'_>, text: &mut String) -> Option<()> {
    let letter = match rest.next()? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        // A string that goes on in the next line.
        '\n' => return Some(()),
        'x' => numbered(rest, 2)?,
        'u' => numbered(rest, 4)?,
        'U' => numbered(rest, 8)?,
        letter @ ('\\' | '\'' | '"') => letter,
        letter => {
            text.push('\\');
            letter
        }
    };
    text.push(letter);
    Some(())
}

/// The letter of a number of so many digits.
fn numbered(rest: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let number = rest.as_str().get(..digits)?;
    let letter = u32::from_str_radix(number, 16).ok().and_then(char::from_u32);
    *rest = rest.as_str()[digits..].chars();
    Some(letter.unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// What a call makes.
fn made(name: &str, mut values: Vec<Value>, named: Pairs) -> Option<Value> {
    let number = |value: &Value| match value {
        Value::One(Some(text)) => text.parse::<f64>().ok(),
        _ => None,
    };
    match name {
        "datetime" | "date" => {
            // Where the clock stands may be the last of them.
            let parts: Vec<u32> = values.iter().map_while(number).map(|part| part as u32).collect();
            let [year, month, day, clock @ ..] = parts.as_slice() else { return None };
            let part = |at: usize| clock.get(at).copied().unwrap_or_default();
            let (hour, minute, second) = (part(0), part(1), part(2));
            let text = match name {
                "date" => format!("{year:04}-{month:02}-{day:02}"),
                _ => format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"),
            };
            Some(Value::One(Some(text)))
        }
        "timedelta" => {
            let place = |name: &str| ["days", "seconds"].iter().position(|known| *known == name);
            let mut parts = [0.0_f64; 2];
            for (part, value) in parts.iter_mut().zip(&values) {
                *part = number(value)?;
            }
            for (name, value) in &named {
                if let Some(part) = place(name).and_then(|at| parts.get_mut(at)) {
                    *part = number(value)?;
                }
            }
            Some(Value::One(Some(format!("{:.0}", parts[0] * 86_400.0 + parts[1]))))
        }
        // `Row(Id=12)`, of a named tuple or a class.
        _ if values.is_empty() && !named.is_empty() => Some(Value::Named(named)),
        // `Decimal('3')`, `OrderedDict([('Id', 12)])`
        _ if values.len() == 1 && named.is_empty() => match values.pop()? {
            Value::List(pairs) => {
                let pair = |value: &Value| match value {
                    Value::List(pair) => match pair.as_slice() {
                        [Value::One(Some(name)), value] => Some((name.clone(), value.clone())),
                        _ => None,
                    },
                    _ => None,
                };
                let named: Option<Pairs> =
                    pairs.iter().map(pair).collect::<Option<_>>().filter(|_| name.contains("ict"));
                Some(named.map_or(Value::List(pairs), Value::Named))
            }
            value => Some(value),
        },
        // A row that is printed with the name of its class.
        _ if values.len() > 1 && named.is_empty() => Some(Value::List(values)),
        _ => None,
    }
}
