/* Loaded when the program is already being looked at. */
void of_the_library(void (*then)(void)) {
  then();
  __asm__ volatile("" ::: "memory");
}
