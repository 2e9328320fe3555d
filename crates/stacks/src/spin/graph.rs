//! The control flow graph of one function, instruction by instruction, and its loops.
//!
//! In: where to begin, and a source of code. Out: loops.

use std::collections::{HashMap, HashSet};

use super::instruction::{Flow, Instruction, decode};
use super::{Architecture, CodeOf, Function, LARGEST_FUNCTION};

/// How many parts of one function are followed: compilers put unlikely code into a part of its own (`.cold`).
const MOST_PARTS: usize = 8;

/// The root that stands before every entry.
const ROOT: usize = 0;

/// A function's instructions and where control goes between them.
#[derive(Debug)]
pub(super) struct Graph {
    parts: Vec<Function>,
    /// Node n is instruction n - 1: node 0 is the root.
    instructions: Vec<Instruction>,
    node_at: HashMap<u64, usize>,
    next: Vec<Vec<usize>>,
    previous: Vec<Vec<usize>>,
}

impl Graph {
    /// What can be reached from the beginning of the function, or from an address in it.
    pub(super) fn explored(
        architecture: Architecture,
        function: Function,
        address: u64,
        code: &mut CodeOf<'_>,
    ) -> Self {
        let start = function.start;
        let mut graph = Self {
            parts: vec![function],
            instructions: Vec::new(),
            node_at: HashMap::new(),
            next: Vec::new(),
            previous: Vec::new(),
        };
        graph.explore(architecture, start, code);
        let mut entries = vec![start];
        if !graph.node_at.contains_key(&address) {
            // Behind a jump through a table, or in a part that only the rest of the function leads to.
            graph.explore(architecture, address, code);
            entries.push(address);
        }
        graph.connect(&entries);
        graph
    }

    /// The nodes, but for the root.
    pub(super) fn nodes(&self) -> impl Iterator<Item = usize> + use<> {
        1..=self.instructions.len()
    }

    pub(super) fn instruction(&self, node: usize) -> &Instruction {
        &self.instructions[node - 1]
    }

    /// The bytes from a node's instruction on.
    pub(super) fn bytes(&self, node: usize) -> &[u8] {
        self.bytes_at(self.instruction(node).address).unwrap_or_default()
    }

    pub(super) fn has(&self, address: u64) -> bool {
        self.node_at.contains_key(&address)
    }

    fn bytes_at(&self, address: u64) -> Option<&[u8]> {
        self.parts.iter().find_map(|part| {
            let offset = usize::try_from(address.checked_sub(part.start)?).ok()?;
            part.bytes.get(offset..).filter(|rest| !rest.is_empty())
        })
    }

    fn explore(&mut self, architecture: Architecture, from: u64, code: &mut CodeOf<'_>) {
        let mut waiting = vec![from];
        while let Some(address) = waiting.pop() {
            if self.has(address) || self.instructions.len() >= LARGEST_FUNCTION {
                continue;
            }
            let Some(instruction) =
                self.bytes_at(address).and_then(|bytes| decode(architecture, address, bytes))
            else {
                continue;
            };
            self.instructions.push(instruction);
            self.node_at.insert(address, self.instructions.len());
            for target in successors(&instruction) {
                if self.bytes_at(target).is_none() {
                    self.add_part(target, code);
                }
                waiting.push(target);
            }
        }
    }

    /// A jump to the beginning of a function calls it; a jump into the midst of code leads to a part of this function.
    fn add_part(&mut self, target: u64, code: &mut CodeOf<'_>) {
        if self.parts.len() < MOST_PARTS
            && let Some(part) = code.function(target)
            && (part.start != target || !part.bounded)
        {
            self.parts.push(part);
        }
    }

    fn connect(&mut self, entries: &[u64]) {
        let count = self.instructions.len() + 1;
        self.next = vec![Vec::new(); count];
        self.previous = vec![Vec::new(); count];
        let edges = entries.iter().map(|&entry| (ROOT, entry)).chain(
            self.instructions
                .iter()
                .enumerate()
                .flat_map(|(index, instruction)| successors(instruction).map(move |to| (index + 1, to))),
        );
        for (from, to) in edges {
            if let Some(&to) = self.node_at.get(&to) {
                self.next[from].push(to);
                self.previous[to].push(from);
            }
        }
    }

    /// The loops that one of these nodes is in, those inside of others included.
    ///
    /// A loop is a strongly connected component. The loops inside of it are those that are left when no edge
    /// leads back to where it is entered (Steensgaard, "Sequentializing program dependence graphs for
    /// irreducible programs", 1993). It may be entered in several places: code behind a call that never returns
    /// looks like one.
    pub(super) fn loops(&self, around: &[usize]) -> Vec<Loop> {
        let mut found = Vec::new();
        let mut within: Vec<HashSet<usize>> = vec![(0..self.next.len()).collect()];
        let mut cut: HashSet<usize> = HashSet::new();
        while let Some(nodes) = within.pop() {
            for body in self.components(&nodes, &cut) {
                if !around.iter().any(|node| body.contains(node)) {
                    continue;
                }
                let entered = |node: &usize| self.previous[*node].iter().any(|from| !body.contains(from));
                let entries: HashSet<usize> = body.iter().copied().filter(entered).collect();
                cut.extend(&entries);
                within.push(body.clone());
                found.push(Loop { entries, body });
            }
        }
        found
    }

    /// Strongly connected components of more than a node or with an edge to itself, by Tarjan's algorithm without
    /// recursion. Edges to the nodes in `cut` are left out.
    fn components(&self, nodes: &HashSet<usize>, cut: &HashSet<usize>) -> Vec<HashSet<usize>> {
        let follow = |from: usize| {
            self.next[from].iter().copied().filter(|to| nodes.contains(to) && !cut.contains(to))
        };
        let mut components = Vec::new();
        let mut index: HashMap<usize, usize> = HashMap::new();
        let mut low: HashMap<usize, usize> = HashMap::new();
        let (mut open, mut is_open) = (Vec::new(), HashSet::new());
        for &from in nodes {
            if index.contains_key(&from) {
                continue;
            }
            let mut path = vec![(from, follow(from))];
            while let Some((node, ways)) = path.last_mut() {
                let node = *node;
                if !index.contains_key(&node) {
                    let number = index.len();
                    index.insert(node, number);
                    low.insert(node, number);
                    open.push(node);
                    is_open.insert(node);
                }
                if let Some(to) = ways.next() {
                    if !index.contains_key(&to) {
                        path.push((to, follow(to)));
                    } else if is_open.contains(&to) {
                        let lowest = low[&node].min(index[&to]);
                        low.insert(node, lowest);
                    }
                    continue;
                }
                path.pop();
                if let Some(&(above, _)) = path.last() {
                    let lowest = low[&above].min(low[&node]);
                    low.insert(above, lowest);
                }
                if low[&node] == index[&node] {
                    let begin = open.iter().rposition(|&one| one == node).expect("it is open");
                    let body: HashSet<usize> = open.drain(begin..).collect();
                    is_open.retain(|one| !body.contains(one));
                    if body.len() > 1 || follow(node).any(|to| to == node) {
                        components.push(body);
                    }
                }
            }
        }
        components
    }

    /// The nodes of a loop that one turn can pass together with this one: before it or after it.
    pub(super) fn turn(&self, whole: &Loop, node: usize) -> HashSet<usize> {
        let mut turn = HashSet::new();
        for ways in [&self.next, &self.previous] {
            let mut seen = HashSet::from([node]);
            let mut waiting = vec![node];
            while let Some(at) = waiting.pop() {
                if whole.entries.contains(&at) && at != node {
                    continue;
                }
                waiting.extend(
                    ways[at].iter().filter(|to| whole.body.contains(to)).filter(|&&to| seen.insert(to)),
                );
            }
            turn.extend(seen);
        }
        turn
    }
}

/// A loop.
#[derive(Debug)]
pub(super) struct Loop {
    /// Where it is entered.
    pub(super) entries: HashSet<usize>,
    /// All of it.
    pub(super) body: HashSet<usize>,
}

/// Where control may go next within the function.
fn successors(instruction: &Instruction) -> impl Iterator<Item = u64> + use<> {
    let next = instruction.address.wrapping_add(instruction.len);
    let (first, second) = match instruction.flow {
        Flow::Next | Flow::Call(_) => (Some(next), None),
        Flow::Jump(to) => (Some(to), None),
        Flow::Branch(to) => (Some(next), Some(to)),
        Flow::Leave | Flow::Trap => (None, None),
    };
    first.into_iter().chain(second)
}
