"""Users, logins and rights: who may connect, and what each user may do."""
