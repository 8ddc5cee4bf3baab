//! Tests of the CSR table.
