//! The lab's servers, and what the other crates read of them. Scenarios and trials measure, and are programs of their own.

mod calm;
