//! The axes of a grid that are no variables of the server, under names that no variable has.

use super::{Assigned, Setting};

/// What the clients do.
pub const WORKLOAD: &str = "workload";
/// CPUs that the server may use.
pub const CPUSET: &str = "cpuset";
/// CPU time that it is granted, CPUs; `none` for as much as there is.
pub const QUOTA: &str = "quota";

/// True for the name of one of them.
pub fn is_axis(name: &str) -> bool {
    [WORKLOAD, CPUSET, QUOTA].contains(&name)
}

impl Setting {
    /// Its value on an axis.
    pub fn value(&self, axis: &str) -> Option<&str> {
        self.0.iter().find(|assigned| assigned.variable == axis).map(|assigned| assigned.value.as_str())
    }

    /// What of it is a variable of the server.
    pub fn variables(&self) -> impl Iterator<Item = &Assigned> {
        self.0.iter().filter(|assigned| !is_axis(&assigned.variable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_variables_and_what_is_none() {
        let assigned =
            |variable: &str, value: &str| Assigned { variable: variable.to_owned(), value: value.to_owned() };
        let setting = Setting(vec![assigned("sync_binlog", "0"), assigned(QUOTA, "0.5")]);
        assert_eq!((setting.value(QUOTA), setting.value(WORKLOAD)), (Some("0.5"), None));
        assert_eq!(setting.variables().count(), 1);
        assert_eq!(setting.text(), "sync_binlog = 0, quota = 0.5");
    }
}
