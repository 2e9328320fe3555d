//! The rows of one answer, as text. Parsers take these, never a connection.
//!
//! The texts of all cells stand one behind the other in one piece of memory: a list of a thousand threads would be twelve
//! thousand small ones.

/// Column names and rows of one result set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rows {
    columns: Vec<String>,
    text: String,
    cells: Vec<Cell>,
    /// For each row where its cells end in `cells`.
    ends: Vec<usize>,
}

/// Where a cell's text ends in that of all; it begins where the cell before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    end: u32,
    is_null: bool,
}

/// One row; columns are found by name in any case, because servers differ in it.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    columns: &'a [String],
    text: &'a str,
    /// Where the first cell's text begins.
    from: u32,
    cells: &'a [Cell],
}

impl Rows {
    /// Rows with their column names.
    pub fn new(columns: Vec<String>, rows: Vec<Vec<Option<String>>>) -> Self {
        let mut all = Self::of_columns(columns);
        for row in rows {
            all.push(row.iter().map(|cell| cell.as_ref().map(String::as_bytes)));
        }
        all
    }

    /// No rows yet of these columns.
    pub(crate) fn of_columns(columns: Vec<String>) -> Self {
        Self { columns, ..Self::default() }
    }

    /// Adds a row; bytes that are not UTF-8 are shown as the replacement character. What is beyond 4 GiB is not kept: no
    /// answer is as long.
    pub(crate) fn push<'a>(&mut self, cells: impl Iterator<Item = Option<&'a [u8]>>) {
        for cell in cells {
            if let Some(bytes) = cell {
                self.text.push_str(&String::from_utf8_lossy(bytes));
            }
            let end = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
            self.cells.push(Cell { end, is_null: cell.is_none() });
        }
        self.ends.push(self.cells.len());
    }

    /// The row at a place in the server's order.
    fn row(&self, at: usize) -> Option<Row<'_>> {
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let from = start.checked_sub(1).and_then(|before| self.cells.get(before)).map_or(0, |cell| cell.end);
        Some(Row { columns: &self.columns, text: &self.text, from, cells: self.cells.get(start..end)? })
    }

    /// The rows in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.ends.len()).filter_map(|at| self.row(at))
    }

    /// The first row.
    pub fn first(&self) -> Option<Row<'_>> {
        self.row(0)
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.columns
    }

    /// The cells alone, row by row.
    pub(crate) fn into_cells(self) -> Vec<Vec<Option<String>>> {
        let cells = |row: Row<'_>| (0..row.cells.len()).map(|at| row.at(at).map(str::to_owned)).collect();
        self.iter().map(cells).collect()
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl<'a> Row<'a> {
    /// The cell under a column name; None for NULL and for a column that this server does not have.
    pub fn text(&self, column: &str) -> Option<&'a str> {
        let at = self.columns.iter().position(|name| name.eq_ignore_ascii_case(column))?;
        self.at(at)
    }

    /// The cell at a position, for answers whose column names vary.
    pub fn at(&self, position: usize) -> Option<&'a str> {
        let cell = self.cells.get(position).filter(|cell| !cell.is_null)?;
        let before = position.checked_sub(1).and_then(|before| self.cells.get(before));
        let from = before.map_or(self.from, |cell| cell.end);
        self.text.get(from as usize..cell.end as usize)
    }

    /// The cell as text, empty for NULL.
    pub fn string(&self, column: &str) -> String {
        self.text(column).unwrap_or_default().to_owned()
    }

    /// The cell as a number of the wanted kind; None where it holds none, and for `NaN`, `inf` and
    /// what is beyond all numbers: Rust takes them for numbers, JSON has no word for them.
    pub fn number<N: std::str::FromStr>(&self, column: &str) -> Option<N> {
        let text = self.text(column)?.trim();
        // A few digits are none of those.
        if text.len() > 20 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            text.parse().ok().filter(|number: &f64| number.is_finite())?;
        }
        text.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_by_place_and_by_name_in_rows_of_any_length() {
        let cell = |text: &str| Some(text.to_owned());
        let cells = vec![
            vec![cell("ab"), None, cell("")],
            vec![],
            vec![cell("ü"), cell("12"), cell("1e999"), cell("beyond")],
            vec![None],
        ];
        let rows = Rows::new(vec!["A".into(), "n".into(), "x".into()], cells.clone());
        assert_eq!((rows.len(), rows.columns(), rows.is_empty()), (4, 3, false));
        let texts = |row: Row<'_>| (0..4).map(|at| row.at(at).map(str::to_owned)).collect::<Vec<_>>();
        let all: Vec<_> = rows.iter().map(texts).collect();
        assert_eq!(all[0], [cell("ab"), None, cell(""), None]);
        assert_eq!(all[1], [None, None, None, None]);
        assert_eq!(all[2], [cell("ü"), cell("12"), cell("1e999"), cell("beyond")]);
        assert_eq!(all[3], [None, None, None, None]);
        let third = rows.iter().nth(2).unwrap();
        assert_eq!(
            (third.text("a"), third.number::<u64>("N"), third.number::<f64>("x")),
            (Some("ü"), Some(12), None)
        );
        assert_eq!((third.text("b"), rows.first().unwrap().string("n")), (None, String::new()));
        assert_eq!(rows.into_cells(), cells);
    }

    #[test]
    fn digits_are_a_number_of_the_wanted_kind_and_no_other_text_is() {
        let number = |text: &str| {
            let rows = Rows::new(vec!["n".into()], vec![vec![Some(text.to_owned())]]);
            let row = rows.first().unwrap();
            (row.number::<u64>("n"), row.number::<f64>("n"))
        };
        assert_eq!(number(" 42 "), (Some(42), Some(42.0)));
        assert_eq!(number("18446744073709551615").0, Some(u64::MAX));
        assert_eq!(number("99999999999999999999").0, None);
        assert_eq!(number("-1.5"), (None, Some(-1.5)));
        for text in ["", "NaN", "inf", &"9".repeat(400)] {
            assert_eq!(number(text), (None, None), "{text}");
        }
    }
}
