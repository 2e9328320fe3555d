// Throws through a function, again and again: `ready`, then for each line how many exceptions were caught.

#include <iostream>
#include <string>

__attribute__((noinline)) int may_throw(int number)
{
	if (number % 2)
		throw number;
	return number;
}

int main()
{
	long caught = 0;

	std::cout << "ready" << std::endl;
	for (std::string line; std::getline(std::cin, line);) {
		for (int number = 0; number < 100; number++) {
			try {
				may_throw(number);
			} catch (int) {
				caught++;
			}
		}
		std::cout << caught << std::endl;
	}
}
