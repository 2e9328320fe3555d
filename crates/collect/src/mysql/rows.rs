//! The rows of one answer, as text. Parsers take these, never a connection.

/// Column names and rows of one result set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rows {
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

/// One row; columns are found by name in any case, because servers differ in it.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    columns: &'a [String],
    cells: &'a [Option<String>],
}

impl Rows {
    /// Rows with their column names.
    pub fn new(columns: Vec<String>, rows: Vec<Vec<Option<String>>>) -> Self {
        Self { columns, rows }
    }

    /// The rows in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|cells| Row { columns: &self.columns, cells })
    }

    /// The first row.
    pub fn first(&self) -> Option<Row<'_>> {
        self.iter().next()
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.columns
    }

    /// The cells alone, row by row.
    pub(crate) fn into_cells(self) -> Vec<Vec<Option<String>>> {
        self.rows
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl<'a> Row<'a> {
    /// The cell under a column name; None for NULL and for a column that this server does not have.
    pub fn text(&self, column: &str) -> Option<&'a str> {
        let at = self.columns.iter().position(|name| name.eq_ignore_ascii_case(column))?;
        self.cells.get(at)?.as_deref()
    }

    /// The cell at a position, for answers whose column names vary.
    pub fn at(&self, position: usize) -> Option<&'a str> {
        self.cells.get(position)?.as_deref()
    }

    /// The cell as text, empty for NULL.
    pub fn string(&self, column: &str) -> String {
        self.text(column).unwrap_or_default().to_owned()
    }

    /// The cell as a number of the wanted kind; None where it holds none, and for `NaN`, `inf` and
    /// what is beyond all numbers: Rust takes them for numbers, JSON has no word for them.
    pub fn number<N: std::str::FromStr>(&self, column: &str) -> Option<N> {
        let text = self.text(column)?.trim();
        text.parse().ok().filter(|number: &f64| number.is_finite())?;
        text.parse().ok()
    }
}
