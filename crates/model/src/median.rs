//! The one median of the project: the mean of the two middle values where their number is even, and none of nothing.

/// The median of the finite ones among these.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len().is_multiple_of(2) { f64::midpoint(values[middle - 1], upper) } else { upper })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_even_number_it_is_between_the_middle_two_and_of_nothing_there_is_none() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([1.0, 2.0, 100.0, 4.0]), Some(3.0));
        assert_eq!(median([f64::NAN, 7.0]), Some(7.0));
        assert_eq!(median([]), None);
    }
}
