//! Mangled names to readable ones: C++ by the Itanium ABI, Rust.
//!
//! In: a symbol. Out: a short form to show (no parameters, template arguments, return type or clone suffix) and
//! the whole form, where it differs.

use std::fmt;

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// A short symbol can stand for gigabytes, for it refers to its own parts again and again. The longest names of a
/// server take 10 KiB.
const LONGEST: usize = 64 << 10;

/// How deep a name may be nested. The parser tries each literal of a template's arguments in several ways, so that the time grows
/// threefold with each level: with its own limit of 96 a name of 50 bytes takes 0.3 s of CPU time, with this one 1 ms. Of the
/// 77,137 names of MySQL 9.7 it leaves 140 more as they are, nearly all of boost's templates.
const DEEPEST: u32 = 64;

/// A readable name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demangled {
    /// `THD::wait_for`
    pub short: String,
    /// `THD::wait_for(long, std::vector<int>&)`
    pub full: Option<String>,
}

/// Demangles what is mangled; all else stays as it is.
pub fn demangle(name: &str) -> Demangled {
    let as_it_is = || Demangled { short: name.to_owned(), full: None };
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // Without the hash. The suffix of a clone (.llvm.123) is left out too.
        let short = format!("{rust:#}");
        // `_ZNE` is the name of nothing.
        return if short.is_empty() { as_it_is() } else { Demangled { short, full: None } };
    }
    if !name.starts_with("_Z") || name.len() > LONGEST {
        return as_it_is();
    }
    let options = ParseOptions::default().recursion_limit(DEEPEST);
    let Ok(symbol) = Symbol::new_with_options(name, &options) else { return as_it_is() };
    let brief = DemangleOptions::new().no_params().no_return_type();
    let Some(brief) = written(&symbol, &brief) else { return as_it_is() };
    let full = written(&symbol, &DemangleOptions::new()).unwrap_or_else(|| name.to_owned());
    let short = shorten(&brief);
    if short.is_empty() {
        return as_it_is();
    }
    Demangled { full: (full != short).then_some(full), short }
}

fn written(symbol: &Symbol<&str>, options: &DemangleOptions) -> Option<String> {
    struct Bounded(String);
    impl fmt::Write for Bounded {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            if self.0.len() + text.len() > LONGEST {
                return Err(fmt::Error);
            }
            self.0.push_str(text);
            Ok(())
        }
    }
    let mut name = Bounded(String::new());
    symbol.structured_demangle(&mut name, options).ok()?;
    Some(name.0)
}

/// The operators whose names have angle brackets, the longest first.
const ANGLED: [&str; 11] = ["<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "<", ">"];

/// What may stand behind a function's parameters.
const QUALIFIERS: [&str; 5] = [" const", " volatile", " noexcept", " &&", " &"];

/// Leaves out template arguments, parameters that are still there (those of a function around a local class or a
/// lambda), and clone suffixes.
pub fn shorten(name: &str) -> String {
    let mut short = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(character) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("operator").filter(|_| begins_word(&short)) {
            short.push_str("operator");
            rest = after;
            let symbol = ANGLED.iter().chain(&["()"]).find(|symbol| after.starts_with(**symbol));
            if let Some(symbol) = symbol {
                short.push_str(symbol);
                rest = &after[symbol.len()..];
            }
            continue;
        }
        if let Some(after) = rest.strip_prefix("(anonymous namespace)") {
            short.push_str("(anonymous namespace)");
            rest = after;
            continue;
        }
        if rest.starts_with(" [clone") {
            break;
        }
        if let Some(after) = QUALIFIERS.iter().find_map(|qualifier| rest.strip_prefix(qualifier))
            && (after.is_empty() || after.starts_with("::") || after.starts_with(' '))
            && !short.ends_with("operator")
        {
            rest = after;
            continue;
        }
        match character {
            '<' | '(' => rest = &rest[group(rest)..],
            other => {
                short.push(other);
                rest = &rest[other.len_utf8()..];
            }
        }
    }
    short.trim_end().to_owned()
}

fn begins_word(before: &str) -> bool {
    !before.ends_with(|last: char| last.is_alphanumeric() || last == '_')
}

/// The length of the bracketed group that a text begins with; the whole text where it does not end.
fn group(text: &str) -> usize {
    let mut open = Vec::new();
    let mut previous = ' ';
    for (at, character) in text.char_indices() {
        match character {
            // In parentheses `<` may be an operator; only a template's name has one right behind it.
            '<' if !open.is_empty() && previous.is_whitespace() => (),
            '<' | '(' | '{' | '[' => open.push(character),
            '>' if previous != '-' && open.last() == Some(&'<') => {
                open.pop();
            }
            ')' | '}' | ']' => {
                let opening = match character {
                    ')' => '(',
                    '}' => '{',
                    _ => '[',
                };
                // An unbalanced < inside was an operator.
                while open.pop().is_some_and(|last| last != opening) {}
            }
            _ => (),
        }
        if open.is_empty() {
            return at + character.len_utf8();
        }
        previous = character;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(mangled: &str) -> String {
        demangle(mangled).short
    }

    #[test]
    fn parameters_templates_and_return_types_are_left_out() {
        let wait = demangle("_ZN3THD8wait_forElRSt6vectorIiSaIiEE");
        assert_eq!(wait.short, "THD::wait_for");
        assert_eq!(
            wait.full.as_deref(),
            Some("THD::wait_for(long, std::vector<int, std::allocator<int> >&)")
        );
        assert_eq!(short("_ZNSt6vectorIiSaIiEE9push_backERKi"), "std::vector::push_back");
        assert_eq!(short("_Z3maxIiET_S0_S0_"), "max");
        assert_eq!(short("_ZNK4Item8val_realEv"), "Item::val_real");
    }

    #[test]
    fn operators_keep_their_brackets() {
        assert_eq!(short("_ZlsRSoRK6String"), "operator<<");
        assert_eq!(short("_ZN1AltERKS_"), "A::operator<");
        assert_eq!(short("_ZN1AclEv"), "A::operator()");
        assert_eq!(short("_ZNK1AptEv"), "A::operator->");
        assert_eq!(short("_ZN1AssERKS_"), "A::operator<=>");
        assert_eq!(short("_ZNK1AcvPKcEv"), "A::operator char const*");
        assert_eq!(short("_ZN1AcvSt6vectorIiSaIiEEEv"), "A::operator std::vector");
    }

    #[test]
    fn namespaces_without_a_name_and_lambdas_are_kept() {
        assert_eq!(short("_ZN12_GLOBAL__N_13fooEi"), "(anonymous namespace)::foo");
        assert_eq!(short("_ZZN3Foo3barEiENKUliE_clEi"), "Foo::bar::{lambda#1}::operator()");
    }

    #[test]
    fn clones_are_their_function() {
        assert_eq!(short("_ZN3Foo3barEi.cold"), "Foo::bar");
        assert_eq!(short("_ZN3Foo3barEi.part.0"), "Foo::bar");
    }

    #[test]
    fn rust_and_c_names() {
        assert_eq!(short("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(demangle("poll"), Demangled { short: "poll".to_owned(), full: None });
        assert_eq!(short("_Znonsense"), "_Znonsense");
        assert_eq!(short("_ZNE"), "_ZNE");
    }

    #[test]
    fn a_name_that_would_grow_without_end_stays_as_it_is() {
        // Each parameter is a template of the one before, twice; each leaves two substitutions, 1b and 1bI...E.
        let mut name = "_Z1f1aIiE".to_owned();
        for before in (0..36).step_by(2) {
            let before = char::from_digit(before, 36).unwrap().to_ascii_uppercase();
            name.push_str(&format!("1bIS{before}_S{before}_E"));
        }
        let demangled = demangle(&name);
        assert_eq!(demangled.full.as_deref(), Some(&*name), "the parameters are gigabytes");
        assert_eq!(demangled.short, "f");
    }

    #[test]
    fn a_name_that_is_nested_too_deep_to_be_read_in_time_stays_as_it_is() {
        let nested = |levels| format!("_Z1f{}i{}", "1sI".repeat(levels), "E".repeat(levels));
        assert_eq!(short(&nested(10)), "f");
        // The parser's own limit would let it pass.
        assert_eq!(short(&nested(14)), nested(14));
        // With the parser's own limit this one takes 0.3 s.
        let again_and_again = format!("_Z1f{}", "1sIL".repeat(12));
        assert_eq!(short(&again_and_again), again_and_again);
    }

    proptest::proptest! {
        #[test]
        fn no_name_makes_it_panic(name in "(_Z)?[A-Za-z0-9_<>(){}:\\-. ]{0,60}") {
            shorten(&name);
            demangle(&name);
        }
    }
}
