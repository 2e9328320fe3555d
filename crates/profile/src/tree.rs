//! Stacks summed up: a tree from the roots to the leaves, and functions by their share. Pure.

use std::collections::{HashMap, HashSet};

use spindoctor_model::stack::ThreadState;

use super::counted::{Counted, Label, LabelKind};

/// Nodes in one list; the first is the root that all stacks have in common. No recursion anywhere: a stack may
/// be of any depth.
#[derive(Debug)]
pub struct Tree<'a> {
    /// The root first; a node stands behind its parent.
    pub nodes: Vec<Node<'a>>,
}

/// One way to get to one place.
#[derive(Debug)]
pub struct Node<'a> {
    /// What it is called.
    pub label: Label<'a>,
    /// How far from the root: the root's is 0.
    pub depth: usize,
    /// Place of its parent; the root is its own.
    pub parent: usize,
    /// Places of its children, in order of name.
    pub children: Vec<usize>,
    /// Observations in it and below.
    pub total: u64,
    /// Observations in it, not below.
    pub own: u64,
    /// Of them all, those that were spinning.
    pub spinning: u64,
    /// Of them all, how many were in which state.
    pub states: HashMap<ThreadState, u64>,
}

impl<'a> Tree<'a> {
    /// The tree of these stacks.
    pub fn from_stacks(stacks: &[Counted<'a>]) -> Self {
        let all = Label { name: "all".into(), kind: LabelKind::Group };
        let mut nodes = vec![Node::new(all, 0, 0)];
        let mut known: HashMap<(usize, Label<'a>), usize> = HashMap::new();
        for stack in stacks {
            let mut at = 0;
            nodes[0].count(stack);
            for label in &stack.labels {
                let parent = at;
                at = *known.entry((parent, label.clone())).or_insert_with(|| {
                    nodes.push(Node::new(label.clone(), nodes[parent].depth + 1, parent));
                    let child = nodes.len() - 1;
                    nodes[parent].children.push(child);
                    child
                });
                nodes[at].count(stack);
            }
            nodes[at].own += stack.count;
        }
        for at in 0..nodes.len() {
            let mut children = std::mem::take(&mut nodes[at].children);
            children.sort_by(|a, b| nodes[*a].label.cmp(&nodes[*b].label));
            nodes[at].children = children;
        }
        Self { nodes }
    }

    /// All observations.
    pub fn total(&self) -> u64 {
        self.nodes[0].total
    }
}

impl<'a> Node<'a> {
    fn new(label: Label<'a>, depth: usize, parent: usize) -> Self {
        Self {
            label,
            depth,
            parent,
            children: Vec::new(),
            total: 0,
            own: 0,
            spinning: 0,
            states: HashMap::new(),
        }
    }

    fn count(&mut self, stack: &Counted<'a>) {
        self.total += stack.count;
        *self.states.entry(stack.state).or_default() += stack.count;
        if stack.spin.is_some() {
            self.spinning += stack.count;
        }
    }

    /// What most of them were doing; where two are even, the first in the order of the states.
    pub fn state(&self) -> ThreadState {
        let most = self.states.iter().max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)));
        most.map(|(state, _)| *state).unwrap_or_default()
    }
}

/// A function and how often it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function<'a> {
    /// What it is called.
    pub label: Label<'a>,
    /// Observations with it at the innermost place.
    pub own: u64,
    /// Observations with it anywhere.
    pub total: u64,
}

/// Every function, the commonest at the innermost place first. A recursive one counts once for each observation.
pub fn functions<'a>(stacks: &[Counted<'a>]) -> Vec<Function<'a>> {
    let mut counts: HashMap<&Label<'a>, (u64, u64)> = HashMap::new();
    let mut seen: HashSet<&Label<'a>> = HashSet::new();
    for stack in stacks {
        seen.clear();
        for (at, label) in stack.labels.iter().enumerate().skip(1) {
            let count = counts.entry(label).or_default();
            if at + 1 == stack.labels.len() {
                count.0 += stack.count;
            }
            if seen.insert(label) {
                count.1 += stack.count;
            }
        }
    }
    let mut functions: Vec<Function<'a>> = counts
        .into_iter()
        .map(|(label, (own, total))| Function { label: label.clone(), own, total })
        .collect();
    functions.sort_by(|a, b| b.own.cmp(&a.own).then(b.total.cmp(&a.total)).then(a.label.cmp(&b.label)));
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::examples;
    use crate::view::{Choice, View};

    #[test]
    fn a_tree_loses_no_observation_and_every_node_has_what_its_children_have() {
        let profile = examples::busy();
        let view = View::new(&profile, &Choice::default()).unwrap();
        let tree = Tree::from_stacks(&view.counted());
        assert_eq!(tree.total(), view.observations.len() as u64);
        for node in &tree.nodes {
            let below: u64 = node.children.iter().map(|child| tree.nodes[*child].total).sum();
            assert_eq!(node.total, node.own + below, "{}", node.label.name);
            assert_eq!(node.total, node.states.values().sum::<u64>());
        }
    }

    #[test]
    fn a_recursive_function_counts_once() {
        let profile = examples::recursive();
        let view = View::new(&profile, &Choice::default()).unwrap();
        let functions = functions(&view.counted());
        let again = functions.iter().find(|function| function.label.name == "again").unwrap();
        assert_eq!((again.own, again.total), (1, 1));
    }
}
