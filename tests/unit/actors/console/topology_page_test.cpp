#include "actors/console/topology_page.hpp"

#include <doctest/doctest.h>

using namespace deepinfer;

TEST_SUITE("actors/console/topology_page") {
  TEST_CASE("the page is one whole document") {
    CHECK(topology_page.starts_with("<!doctype html>"));
    CHECK(topology_page.find("</html>") != std::string_view::npos);
    CHECK(topology_page.find("/*STYLE*/") == std::string_view::npos);
    CHECK(topology_page.find("/*SCRIPT*/") == std::string_view::npos);
    CHECK(topology_page.find("prefers-color-scheme: dark") != std::string_view::npos);
    CHECK(topology_page.find("width=device-width") != std::string_view::npos);
    CHECK(topology_page.find("/api/topology") != std::string_view::npos);
  }

  TEST_CASE("the page loads nothing from elsewhere") {
    for (const char* word : {"src=", "https://", "//cdn", "@import", "url(", "import(",
                             "XMLHttpRequest", "<link rel=\"stylesheet"})
      CHECK_MESSAGE(topology_page.find(word) == std::string_view::npos, word);
  }

  TEST_CASE("the page never reads text as HTML or code") {
    for (const char* word :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(",
          "DOMParser", "setAttribute('on", "srcdoc", "javascript:"})
      CHECK_MESSAGE(topology_page.find(word) == std::string_view::npos, word);
  }
}
