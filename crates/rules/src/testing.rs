//! Windows for tests.
