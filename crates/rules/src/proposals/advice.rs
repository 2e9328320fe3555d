//! The input of a family, its possible answers, and how a proposal is built.

use spindoctor_model::{Change, Finding, Proposal, Remedy, ServerVersion, Unavailable, Window};

use super::Family;

/// The window, and what the rules found in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Examined<'a> {
    pub(super) window: &'a Window,
    pub(super) findings: &'a [Finding],
}

/// What a family says. That it could not look is an error.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Advice {
    /// Changes, the best first; at least one.
    Propose(Vec<Proposal>),
    /// It looked, and nothing is called for: why, in a sentence.
    Leave(String),
}

/// `Ok` of [`Advice::Leave`].
pub(super) fn leave(because: impl Into<String>) -> Result<Advice, Unavailable> {
    Ok(Advice::Leave(because.into()))
}

impl Examined<'_> {
    /// The server's version.
    pub(super) fn version(&self) -> Result<ServerVersion, Unavailable> {
        self.window.server.version.ok_or_else(|| {
            self.window
                .missing(|s| &s.server.variables)
                .unwrap_or_else(|| Unavailable::because("the server's version is not known"))
        })
    }

    /// The finding that the family's settings cure; the first where there are several.
    pub(super) fn finding_cured_by(&self, family: &Family) -> Option<&Finding> {
        family.cures.iter().find_map(|cause| self.finding(cause))
    }

    /// The finding of that cause.
    pub(super) fn finding(&self, cause: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.cause == cause)
    }

    /// A finding's remedies that set these variables and no other, as one proposal; none where it has none.
    pub(super) fn remedies_of(&self, finding: &Finding, variables: &[&str]) -> Option<Proposal> {
        let mut proposal = Proposal::default();
        let Remedy { why, risk, .. } = &mut proposal.remedy;
        // What was found has this server's numbers; a remedy says what becomes of them.
        *why = format!("{}.", finding.headline);
        for remedy in &finding.remedies {
            let changes = self.changes_of(remedy);
            if changes.is_empty()
                || !changes.iter().all(|change| variables.contains(&change.variable.as_str()))
            {
                continue;
            }
            proposal.changes.extend(changes);
            for (text, more) in [(&mut *why, &remedy.why), (&mut *risk, &remedy.risk)] {
                if !text.contains(more.as_str()) {
                    text.push_str(if text.is_empty() { "" } else { " " });
                    text.push_str(more);
                }
            }
        }
        (!proposal.changes.is_empty()).then(|| proposal.stated().after(finding))
    }

    /// What a remedy sets on the running server: of `SET GLOBAL a = 1, b = 2` both, with what they are now. Empty
    /// where it is no such statement, or names what this server does not have.
    fn changes_of(&self, remedy: &Remedy) -> Vec<Change> {
        let Some(assignments) = remedy.statement.strip_prefix("SET GLOBAL ").filter(|_| remedy.dynamic)
        else {
            return Vec::new();
        };
        let change = |assignment: &str| {
            let (variable, to) = assignment.trim().trim_start_matches("GLOBAL ").split_once(" = ")?;
            self.change(variable, to)
        };
        assignments.split(',').map(change).collect::<Option<_>>().unwrap_or_default()
    }

    /// A variable of this server that becomes something else; none where it has none such, or it is so already.
    pub(super) fn change(&self, variable: &str, to: impl Into<String>) -> Option<Change> {
        let from = self.window.variable(variable)?.to_owned();
        let to = to.into();
        let is_value = !to.is_empty() && !to.contains(char::is_whitespace);
        (is_value && from != to).then(|| Change { variable: variable.to_owned(), from, to })
    }
}

/// How a proposal is put together.
pub(super) trait Draft: Sized {
    /// A change of variables, dynamic, with the reasons for and against it.
    fn setting(changes: Vec<Change>, why: impl Into<String>, risk: impl Into<String>) -> Self;
    /// Statement and undo after its changes.
    fn stated(self) -> Self;
    /// Cause and score after a finding.
    fn after(self, finding: &Finding) -> Self;
    /// What it costs.
    fn costs(self, cost: impl Into<String>) -> Self;
}

impl Draft for Proposal {
    fn setting(changes: Vec<Change>, why: impl Into<String>, risk: impl Into<String>) -> Self {
        let remedy = Remedy { why: why.into(), risk: risk.into(), ..Remedy::default() };
        Self { changes, remedy, ..Self::default() }.stated()
    }

    fn stated(mut self) -> Self {
        // GLOBAL before each: servers differ in what a name without it means.
        let set = |pairs: &mut dyn Iterator<Item = (&str, &str)>| {
            let assignments: Vec<String> =
                pairs.map(|(name, value)| format!("GLOBAL {name} = {value}")).collect();
            format!("SET {}", assignments.join(", "))
        };
        let changes = &self.changes;
        self.remedy.statement =
            set(&mut changes.iter().map(|change| (change.variable.as_str(), change.to.as_str())));
        // The last first: what was raised before another may have to be lowered after it.
        self.remedy.undo =
            set(&mut changes.iter().rev().map(|change| (change.variable.as_str(), change.from.as_str())));
        self.remedy.dynamic = true;
        self
    }

    fn after(self, finding: &Finding) -> Self {
        Self { cause: Some(finding.cause.clone()), score: Some(finding.score), ..self }
    }

    fn costs(self, cost: impl Into<String>) -> Self {
        Self { cost: cost.into(), ..self }
    }
}
