//! How a rule puts a finding together. Name, references and severity come from the cause and the
//! score, so that no rule can disagree with the catalogue or with [`crate::rank`].

use spindoctor_model::{Evidence, Finding, Remedy, Root, Severity, Window};

use crate::{Cause, rank};

/// `405.0 sessions wait` as `405 sessions wait`, and `1.0 sessions wait` as `One session waits`: a mean that is a whole number reads as
/// one.
fn counted(headline: String) -> String {
    const VERBS: [(&str, &str); 6] = [
        ("are ", "is "),
        ("wait ", "waits "),
        ("stand ", "stands "),
        ("write ", "writes "),
        ("sort ", "sorts "),
        ("spill ", "spills "),
    ];
    let Some((number, rest)) = headline.split_once(".0 sessions ") else { return headline };
    if !number.chars().all(|c| c.is_ascii_digit()) {
        return headline;
    }
    let verb = VERBS.iter().find_map(|(many, one)| Some((one, rest.strip_prefix(many)?)));
    match (number, verb) {
        // `for their own writes: ...`; behind the colon others may be meant.
        ("1", Some((verb, rest))) => {
            let (own, more) = rest.split_at(rest.find(':').unwrap_or(rest.len()));
            format!("One session {verb}{}{more}", own.replace(" their ", " its "))
        }
        ("1", None) => headline,
        _ => format!("{number} sessions {rest}"),
    }
}

/// What sets a global variable back: to the value that was read, and where none was read to what it was. A default is no value of this
/// server, and differs by version. A value that is no word ([`Window::variable_word`]) is in no statement.
pub(crate) fn set_back(window: &Window, name: &str) -> String {
    window.variable_word(name).map_or_else(
        || format!("SET GLOBAL {name} to what it was"),
        |value| format!("SET GLOBAL {name} = {value}"),
    )
}

/// A finding in the making.
#[derive(Debug)]
pub(crate) struct Draft(Finding);

impl Draft {
    /// A finding of that cause; the score is brought into 0 to 1.
    pub(crate) fn new(cause: &Cause, score: f64, headline: impl Into<String>) -> Self {
        // Of -0.0, which a clamp leaves as it is, 0.0 too.
        let score = if score.is_finite() { score.clamp(0.0, 1.0) + 0.0 } else { 0.0 };
        Self(Finding {
            cause: cause.name.to_owned(),
            severity: rank::severity(score),
            score,
            headline: counted(headline.into()),
            evidence: Vec::new(),
            why: String::new(),
            remedies: Vec::new(),
            root: None,
            explains: Vec::new(),
            is_elsewhere: false,
            references: cause.references.iter().map(|&reference| reference.to_owned()).collect(),
        })
    }

    /// The mechanism with this server's numbers.
    pub(crate) fn why(mut self, why: impl Into<String>) -> Self {
        self.0.why = why.into();
        self
    }

    /// Adds a reading.
    pub(crate) fn evidence(mut self, evidence: Evidence) -> Self {
        self.0.evidence.push(evidence);
        self
    }

    /// Adds a reading where there is one.
    pub(crate) fn evidence_if(mut self, evidence: Option<Evidence>) -> Self {
        self.0.evidence.extend(evidence);
        self
    }

    /// Adds readings.
    pub(crate) fn evidence_all(mut self, evidence: impl Iterator<Item = Evidence>) -> Self {
        self.0.evidence.extend(evidence);
        self
    }

    /// Adds a remedy; the best comes first.
    pub(crate) fn remedy(mut self, remedy: Remedy) -> Self {
        self.0.remedies.push(remedy);
        self
    }

    /// Adds a remedy where there is one.
    pub(crate) fn remedy_if(mut self, remedy: Option<Remedy>) -> Self {
        self.0.remedies.extend(remedy);
        self
    }

    /// Adds remedies; the best comes first.
    pub(crate) fn remedies(mut self, remedies: impl IntoIterator<Item = Remedy>) -> Self {
        self.0.remedies.extend(remedies);
        self
    }

    /// Names the thread that blocks the others; its statement goes in without its literals.
    pub(crate) fn root(mut self, root: Option<Root>) -> Self {
        self.0.root = root.map(|root| Root { statement: spindoctor_sql::digest(&root.statement), ..root });
        self
    }

    /// Names causes whose findings this one explains.
    pub(crate) fn explains(mut self, causes: &[&str]) -> Self {
        self.0.explains.extend(causes.iter().map(|&name| name.to_owned()));
        self
    }

    /// Another severity than the score's: a wait of few sessions.
    pub(crate) fn severity(mut self, severity: Severity) -> Self {
        self.0.severity = severity;
        self
    }

    /// What it costs is in no session time, whatever its cause costs otherwise.
    pub(crate) fn elsewhere(mut self) -> Self {
        self.0.is_elsewhere = true;
        self
    }

    /// The finding.
    pub(crate) fn finding(self) -> Finding {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_was_not_read_is_set_back_to_no_default() {
        let name = "innodb_purge_batch_size";
        let read = crate::testing::Build::busy("8.0.36").variable(name, "700").window();
        assert_eq!(set_back(&read, name), "SET GLOBAL innodb_purge_batch_size = 700");
        assert_eq!(set_back(&Window::default(), name), "SET GLOBAL innodb_purge_batch_size to what it was");
    }

    #[test]
    fn a_mean_that_is_a_whole_number_reads_as_one() {
        let of = |text: &str| counted(text.to_owned());
        assert_eq!(of("405.0 sessions wait to be let in"), "405 sessions wait to be let in");
        assert_eq!(of("1.0 sessions are in `row lock`"), "One session is in `row lock`");
        assert_eq!(of("1.0 sessions wait for their own: theirs"), "One session waits for its own: theirs");
        assert_eq!(of("1.0 sessions on average wait"), "1.0 sessions on average wait");
        assert_eq!(of("10.0 sessions on average wait"), "10 sessions on average wait");
        assert_eq!(of("1.5 sessions wait"), "1.5 sessions wait");
        assert_eq!(of("Connection 7 blocks 2.0 sessions here"), "Connection 7 blocks 2.0 sessions here");
    }
}
