-- The account that spindoctor needs, with nothing that changes data or settings. Put a password in place of '...'.
-- A test holds the GRANTs against what spindoctor's sources ask for.
--
-- 6 connections: record keeps 3, top 2, doctor and each other command 1. With fewer record leaves 3 to the others and does
-- without its look at locks, then without its probe; it needs 1.

-- MySQL and Percona Server 8.0 or later (5.7: without XA_RECOVER_ADMIN, which it does not have):

CREATE USER spindoctor@localhost IDENTIFIED BY '...' WITH MAX_USER_CONNECTIONS 6;
GRANT PROCESS ON *.* TO spindoctor@localhost;
GRANT REPLICATION CLIENT ON *.* TO spindoctor@localhost;
GRANT SELECT ON performance_schema.* TO spindoctor@localhost;
GRANT XA_RECOVER_ADMIN ON *.* TO spindoctor@localhost;

-- MariaDB 10.5.9 or later (before: REPLICATION CLIENT in place of SLAVE MONITOR). Run these instead:

-- CREATE USER spindoctor@localhost IDENTIFIED BY '...' WITH MAX_USER_CONNECTIONS 6;
-- GRANT PROCESS ON *.* TO spindoctor@localhost;
-- GRANT SLAVE MONITOR ON *.* TO spindoctor@localhost;
-- GRANT SELECT ON performance_schema.* TO spindoctor@localhost;
-- INSTALL SONAME 'metadata_lock_info';
